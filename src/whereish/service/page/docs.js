// The HTTP interface, shown by Swagger UI from /openapi.json. No validator badge: the browser would
// request it from another host.

globalThis.SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#api", validatorUrl: null, deepLinking: false,
  presets: [globalThis.SwaggerUIBundle.presets.apis],
});
