"""The first run of the extension, as a person does it: from installation to a protected site."""

from __future__ import annotations

from typing import Any

from extensions import Browser

WIDE = {"width": 900, "height": 560}
SHOP = """<!doctype html><title>A shop</title><style>body { font: 20px system-ui; margin: 3rem }
  button { font: inherit; padding: .6rem 1.2rem }</style><h1>Shops near you</h1>
  <button id="near">Find me</button><p id="told"></p><script>
  near.onclick = () => navigator.geolocation.getCurrentPosition(
    ({ coords }) => { told.textContent = `You are near ${coords.latitude.toFixed(4)}, ` +
      `${coords.longitude.toFixed(4)}, give or take ${Math.round(coords.accuracy)} m.`; },
    ({ message }) => { told.textContent = message; });</script>"""


class FirstRun:
    """Clicks and pictures. `clicks` counts what a person has to click, the browser's dialog too."""

    def __init__(self, browser: Browser, shop: str) -> None:
        self.browser = browser
        self.shop = shop
        self.clicks = 0
        self.pictures: list[tuple[str, bytes]] = []

    def click(self, page: Any, selector: str) -> None:
        self.clicks += 1
        page.click(selector)

    def picture(self, page: Any, words: str) -> None:
        self.pictures.append((words, page.screenshot()))

    def run(self) -> Any:
        """Return the page of the shop, which has got a report."""
        context = self.browser.context
        options = next(
            (page for page in context.pages if page.url.endswith("options.html")), None
        ) or context.wait_for_event("page")
        options.set_viewport_size(WIDE)
        options.wait_for_selector("body[data-ready=true]")
        if not options.input_value("#town"):  # no town has the name of the time zone
            options.fill("#town", "Paris")
        self.picture(options, "After the installation: choose your region")
        self.click(options, "#use-region")
        options.wait_for_selector("#all-sites:enabled")
        options.wait_for_selector("#region-progress", state="hidden")
        self.picture(options, "Choose the sites; the browser asks you once")
        self.click(options, "#all-sites")
        self.clicks += 1  # Allow, in the browser's own dialog, which a test build does not need
        options.wait_for_selector("#all-sites", state="hidden")
        self.browser.set_true()
        shop = context.new_page()
        shop.set_viewport_size(WIDE)

        def protected() -> bool:
            scripts = "async () => (await chrome.scripting.getRegisteredContentScripts()).length"
            return bool(self.browser.run(scripts) == 2)

        while not protected():
            shop.wait_for_timeout(20)
        shop.goto(self.shop)
        with context.expect_page() as asked:
            self.click(shop, "#near")
        question = asked.value
        question.set_viewport_size({"width": 480, "height": 740})
        question.wait_for_selector("#levels label")
        self.picture(question, "A site asks where you are: choose how precise")
        self.click(question, "#tell")
        shop.wait_for_function("() => document.getElementById('told').textContent !== ''")
        self.picture(shop, "The site gets a report, not your position")
        return shop

    def popup(self, shop: Any) -> Any:
        """Open the popup of the shop's tab, in a tab of its own: a test has no button to press."""
        find = "async (u) => (await chrome.tabs.query({})).find((t) => t.url?.startsWith(u)).id"
        tab = self.browser.run(find, self.shop)
        popup = self.browser.context.new_page()
        popup.set_viewport_size({"width": 400, "height": 780})
        popup.goto(f"{self.browser.root}/popup.html?tab={tab}")
        popup.wait_for_selector("#levels label")
        popup.wait_for_function("() => document.getElementById('left').textContent !== ''")
        self.picture(popup, "At any time: the level, the last report, the budget")
        return popup
