"""The panel in a real browser, by mouse and by keyboard."""

from collections.abc import Iterator

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: no browser tests")

from selenium.webdriver import ActionChains, Keys

from mpcsim.lab.what_if import what_if
from mpcsim.sim.colours import party_colour
from tests.lab.explorer.page import driver, needs_browser, short_folder, window
from tests.lab.what_if.page import Page

pytestmark = needs_browser


@pytest.fixture(scope="module")
def chrome() -> Iterator[object]:
    with short_folder() as profile, driver(profile, 1200, 1100) as made:
        yield made


@pytest.fixture
def page(chrome, tmp_path) -> Page:
    """Over LTE and over fibre."""
    return Page(chrome, what_if(b={"access": "fibre"}, samples=400), tmp_path)


def figures(page, side):
    return [td.text for td in page.all(f'.wi-side[data-side="{side}"] td')]


def shown(ms):
    return f"{ms:,.1f}" if ms < 99.95 else f"{ms:,.0f}"


def expected(page, side):
    replay = page.panel.replays[side]
    at = replay.percentiles((50, 95, 99))
    return [shown(ms) for ms in (*at.values(), replay.mean_ms)]


def focus(page):
    page.run("document.querySelector('.wi').focus()")


def test_figures_follow_what_is_changed(page):
    assert figures(page, "a") == expected(page, "a")
    before = figures(page, "b")
    curve = page.find('g[data-side="b"] polyline').get_attribute("points")
    assert not page.all(".wi-stretch[data-cause=handshake]")
    page.chosen("b.institution", "singapore")
    page.control("b.cold").click()
    assert page.answer() == 1
    assert (page.panel.b.institution, page.panel.b.cold) == ("singapore", True)
    assert figures(page, "b") == expected(page, "b") != before
    assert page.find('g[data-side="b"] polyline').get_attribute("points") != curve
    opened = page.all(".wi-stretch[data-cause=handshake]")
    links = [each.get_attribute("data-link") for each in opened]
    assert links == ["client – gateway", "institution – gateway"]
    assert page.find("tr[data-name=institution]").get_attribute("class") == "differs"
    difference = page.find('.wi-side[data-side="difference"] td').text
    a, b = (page.panel.replays[side].percentile(50) for side in "ab")
    sign = "−" if b < a else "+"
    assert difference == f"{sign}{shown(abs(b - a))} ({sign}{round(abs(b - a) / a * 100)} %)"
    assert page.find(".wi-python").text == page.panel.python.strip()
    assert page.errors() == []


@pytest.mark.soak
def test_numbers_are_typed_and_the_last_good_one_stays(page):
    page.typed("a.loss", "1")
    assert page.panel.a.loss == 0.01
    good = figures(page, "a")
    page.typed("a.loss", "a lot")
    assert "'a lot' is not a number from 0 to 50 (%)" in page.find(".wi-problem").text
    assert page.control("a.loss").get_attribute("aria-invalid") == "true"
    assert page.control("a.loss").get_attribute("value") == "a lot", "to be corrected"
    assert page.panel.a.loss == 0.01
    assert figures(page, "a") == good
    page.typed("a.loss", "2")
    assert not page.find(".wi-problem").is_displayed()
    assert page.panel.a.loss == 0.02
    assert page.control("a.loss").get_attribute("aria-invalid") is None
    assert page.control("a.up_mbit_per_s").get_attribute("placeholder") == "7.6"
    # Somebody goes on with something else: what was refused is gone.
    page.typed("a.up_mbit_per_s", "fast")
    page.chosen("a.access", "5g")
    focus(page)
    page.chosen("a.access", "fibre")
    assert page.control("a.up_mbit_per_s").get_attribute("value") == ""
    assert page.control("a.up_mbit_per_s").get_attribute("placeholder") == "112"


@pytest.mark.soak
def test_what_cannot_be_goes_back(page):
    page.control("a.presigned").click()
    page.answer()
    assert page.panel.a.presigned
    assert not page.control("a.separate_messages").is_enabled()
    page.chosen("a.curve", "ed25519")
    assert "presignatures are for secp256k1" in page.find(".wi-problem").text
    assert page.control("a.curve").get_attribute("value") == "secp256k1"
    page.control("a.presigned").click()
    page.answer()
    assert page.control("a.separate_messages").is_enabled()
    page.chosen("b.curve", "ed25519")
    assert page.find(".wi-problem").text == ""
    assert not page.control("b.presigned").is_enabled()
    assert "presignatures are for" in page.control("b.presigned").get_attribute("title")


@pytest.mark.soak
def test_by_keyboard_alone(page):
    focus(page)
    order = []
    for _ in range(8):
        page.press(Keys.TAB)
        order.append(
            page.run(
                "const e = document.activeElement;"
                "return [e.getAttribute('aria-label') || e.textContent,"
                " getComputedStyle(e).outlineStyle]"
            )
        )
    assert [label for label, _ in order] == [
        "Copy A to B", "Swap A and B", "SVG", "PNG",
        "caller, A", "caller, B", "gateway, A", "gateway, B",
    ]  # fmt: skip
    assert {outline for _, outline in order} == {"solid"}
    back = ActionChains(page.chrome).key_down(Keys.SHIFT).send_keys(Keys.TAB, Keys.TAB)
    back.key_up(Keys.SHIFT).perform()  # to the caller's region, B
    page.press(Keys.ARROW_DOWN)
    page.answer()
    assert page.panel.b.region == "tokyo"
    page.run("arguments[0].focus()", page.control("b.loss"))
    page.press(Keys.ARROW_UP)  # from fibre's own 0.05
    page.until(lambda: page.run("return window.commands.length"))
    page.answer()
    assert page.panel.b.loss == 0.001
    page.press(Keys.ARROW_DOWN)
    page.press(Keys.ESCAPE)
    assert page.control("b.loss").get_attribute("value") == "0.1"
    assert page.run("return document.activeElement.className") == "wi"
    a, b = page.panel.a, page.panel.b
    page.press("s")
    page.answer()
    assert (page.panel.a, page.panel.b) == (b, a)
    page.press("c")
    page.answer()
    assert (page.panel.a, page.panel.b) == (b, b)
    assert not page.all("tr.differs")
    page.run("document.addEventListener('copy', () => { window.copied = `${getSelection()}`; })")
    page.run("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.press("p")
    copied = page.until(lambda: page.run("return window.copied"))
    assert copied == page.panel.python.rstrip("\n")
    assert page.find(".wi-status").text == "copied"
    assert page.errors() == []


@pytest.mark.soak
def test_the_clipboard_gets_the_python_lines(page):
    page.run(
        "Object.defineProperty(navigator, 'clipboard',"
        " {value: {writeText: async (text) => { window.copied = text; }}})"
    )
    page.click("[data-key=P]")
    assert page.until(lambda: page.run("return window.copied")) == page.panel.python


@pytest.mark.soak
def test_while_python_works_the_latest_of_each_setting_waits(page):
    """Nothing is asked twice, nothing is lost, and the order stays."""
    for at, value in (("a", "tokyo"), ("a", "oregon"), ("b", "london"), ("a", "paris")):
        page.choose(f"{at}.region", value)
    assert len(page.run("return window.commands")) == 1
    assert page.answer() == 3
    assert (page.panel.a.region, page.panel.b.region) == ("paris", "london")
    assert page.control("a.region").get_attribute("value") == "paris"


@pytest.mark.soak
@pytest.mark.parametrize("dark", [False, True])
def test_hue_is_the_partys(chrome, tmp_path, dark):
    page = Page(chrome, what_if(samples=200), tmp_path, dark=dark)
    assert page.find(".wi").get_attribute("data-theme") == ("dark" if dark else "light")
    for i, role in ((1, "client"), (2, "operator"), (3, "institution")):
        own = party_colour(i).on_dark if dark else party_colour(i).on_light
        rgb = f"rgb({', '.join(str(b) for b in bytes.fromhex(own[1:]))})"
        stretch = page.find(f'.wi-stretch[data-link="{role} – gateway"]')
        swatch = page.find(f'.wi-made tr[data-name="{role} – gateway"] .wi-shade')
        assert page.run("return getComputedStyle(arguments[0]).stroke", stretch) == rgb
        assert page.run("return getComputedStyle(arguments[0]).fill", swatch) == rgb


@pytest.mark.soak
@pytest.mark.parametrize("width", [1440, 1024, 600])
def test_nothing_lies_over_anything(chrome, tmp_path, width):
    settings = {"region": "saopaulo", "access": "3g", "loss": 0.05, "cold": True}
    with window(chrome, width, 1000):
        page = Page(chrome, what_if(settings, {"curve": "ed25519"}, samples=400), tmp_path)
        assert page.overlaps(".wi-tail text") == []
        assert page.overlaps(".wi-path text") == []
        assert page.overlaps(".wi :is(td, th):not(:empty)") == []
        wide = page.run("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0
        cut = page.run(
            "return [...document.querySelectorAll('.wi-settings select')].filter((s) => {"
            " const r = document.createElement('canvas').getContext('2d');"
            " r.font = getComputedStyle(s).font;"
            " return r.measureText(s.selectedOptions[0].text).width + 30 > s.clientWidth;"
            "}).map((s) => s.dataset.at)"
        )
        assert cut == []
        assert page.errors() == []


@pytest.mark.soak
def test_closing_leaves_nothing_behind(page):
    page.run("window.close_widget()")
    before = figures(page, "a")
    page.panel.set("a", access="satellite")
    page.tell()
    assert figures(page, "a") == before
    assert page.errors() == []
