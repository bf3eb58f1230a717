"""Headless Chromium, which tells what its pages asked of the network and wrote to the console."""

import contextlib
import json
import shutil
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no Chromium with its driver: apt-get install chromium chromium-driver"
)
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --autoplay-policy=no-user-gesture-required"
)


@contextlib.contextmanager
def chromium():
    """A browser: selenium's driver, with its console and its network requests in the logs."""
    from selenium import webdriver

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*_FLAGS.split(), f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
        try:
            driver.get("about:blank")  # else the browser's own start page may go on loading beside the first one
            yield driver
        finally:
            driver.quit()


def visit(driver, page, width=1280, scheme="light"):
    """Open a page at this width of the screen [CSS pixels], in a light or dark system."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    asked(driver), console(driver)  # what was logged before
    driver.get(page.as_uri())


def console(driver):
    """What was written to the console since it was last asked."""
    return [entry["message"] for entry in driver.get_log("browser")]


def asked(driver):
    """Addresses that were asked for since the last time, but for data within the page."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith("data:")]


BITES = """<script>window.bitten = 1</script>"></script><img src=x onerror="window.bitten = 1">'`${1}"""


class Page(HTMLParser):
    """The text of a page, its elements with their attributes, and the data of its charts."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(Path(path).read_text(encoding="utf-8"))
        self.text = " ".join(" ".join(self.texts).split())
        scripts = [k for k, (tag, _) in enumerate(self.elements) if tag == "script"]
        self.scripts = len(scripts)
        self.data = json.loads(next(text for text in self.texts if text.startswith('{"charts"')))

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)

    def attributes(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def chart(self, name):
        return next(chart for chart in self.data["charts"] if chart["name"] == name)
