// The HTTP interface, shown by Swagger UI from the description that the service gives of itself.
// No validator's badge: it would be asked for at another host.

globalThis.SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#api", validatorUrl: null, deepLinking: false,
  presets: [globalThis.SwaggerUIBundle.presets.apis],
});
