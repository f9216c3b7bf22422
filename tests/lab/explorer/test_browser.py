"""The widget in a real browser: stepped, clicked, edited, by mouse and by keyboard."""

from collections.abc import Iterator

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: no browser tests")

from selenium.webdriver import Keys

from mpcsim.lab.explorer import Explorer
from mpcsim.sim.colours import party_colour
from tests.lab.explorer.page import Page, driver, needs_browser, short_folder, window
from tests.lab.explorer.wallets import nasty_explorer

pytestmark = needs_browser


@pytest.fixture(scope="module")
def chrome() -> Iterator[object]:
    with short_folder() as profile, driver(profile) as made:
        yield made


@pytest.fixture
def page(chrome, wallet, tmp_path) -> Page:
    """A signature of two parties."""
    return Page(chrome, Explorer.live(wallet, "sign", signers=(1, 3)), tmp_path)


def text(page, selector):
    return page.find(selector).text


def focus(page):
    page.run("document.querySelector('.mx').focus()")


def in_view(page, selector):
    """Whether the whole of an element is to be seen without scrolling."""
    return page.run(
        """
        const element = document.querySelector(arguments[0]);
        const { top, bottom } = element.getBoundingClientRect();
        const frames = [{ top: 0, bottom: window.innerHeight }];
        const panel = element.parentElement.closest(".mx-panel");
        if (panel) frames.push(panel.getBoundingClientRect());
        return top < bottom && frames.every((f) => f.top - 1 <= top && bottom <= f.bottom + 1);
        """,
        selector,
    )


def alter(page, key, path, operation):
    """Edit a field by mouse, and let Python answer."""
    page.message(key).click()
    page.click(f"[data-path='{path}']")
    page.find(".mx-form select").send_keys(operation)
    page.click(".mx-form [type=submit]")
    assert page.answer() == 1


@pytest.mark.soak
def test_stepping_by_mouse_and_by_keyboard(page):
    assert text(page, ".mx-counter") == "step 0 of 10"
    assert text(page, ".mx-badge") == "✓ completed valid"
    page.click("[aria-label^='Step forward']")
    assert text(page, ".mx-counter").startswith("step 1 of 10")
    assert "Party 1 starts" in text(page, ".mx-now")
    assert "step 5: sample r_i, phi_i; commit to R_i" in text(page, ".mx-now")
    focus(page)
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "receives Commit" in text(page, ".mx-now")
    page.press(Keys.ARROW_LEFT)
    assert text(page, ".mx-counter").startswith("step 2 of 10")
    page.press(Keys.END)
    assert text(page, ".mx-counter").startswith("step 10 of 10")
    assert len(page.all(".mx-end.done:not(.hidden)")) == 2
    page.press(Keys.HOME)
    assert text(page, ".mx-counter") == "step 0 of 10"
    assert not page.all(".mx-end.done:not(.hidden)")
    page.click("[aria-label^='Last step']")
    page.answer()
    assert page.widget.step == 10
    assert page.errors() == []


@pytest.mark.soak
def test_messages_by_keyboard(page):
    focus(page)
    page.press(Keys.ARROW_DOWN)
    active = "return document.activeElement.dataset.key || document.activeElement.className"
    first = page.run(active)
    assert ">" in first
    page.press(Keys.ARROW_DOWN)
    assert page.run(active) != first
    page.press(Keys.ARROW_UP)
    assert page.run(active) == first
    page.press(Keys.ENTER)
    assert page.run(active) == "mx-panel"
    page.press(Keys.ESCAPE)
    assert page.run("return window.model.get('selected')") == ""
    assert page.run("return document.activeElement.className") == "mx"


@pytest.mark.soak
def test_sliders_move_the_times(page):
    page.click("[data-tab=timing]")
    slow = page.explorer.trace.finished_ms
    tops = (
        "return [...document.querySelectorAll('.mx-message text')].map((t) => t.getAttribute('y'))"
    )
    before = page.run(tops)
    drag = (
        "const range = document.querySelectorAll('[type=range][data-what=one_way_ms]')[2];"
        "for (const ms of arguments) { range.value = ms;"
        " range.dispatchEvent(new Event('input')); }"
    )
    page.run(drag, 90, 60, 30)
    assert page.answer() == 1, "one at a time"
    assert page.answer() == 1, "and then the latest"
    assert page.answer() == 0
    assert page.explorer.trace.finished_ms < slow
    link = next(link for link in page.explorer.view.links if link.a == "institution")
    assert link.now.one_way_ms == pytest.approx(30)
    assert "at first" in text(page, "[role=tabpanel]:not([hidden])")
    assert page.run(tops) != before
    page.find("[type=range][data-what=one_way_ms]").send_keys(Keys.ARROW_RIGHT)
    assert page.answer() == 1
    assert text(page, ".mx-counter") == "step 0 of 10", "the key moved the slider, not the step"
    page.run("document.querySelector('.mx-restore').click()")
    while page.answer():
        pass
    assert page.explorer.trace.finished_ms == slow


@pytest.mark.soak
def test_roles_labels_and_tab_order(page):
    names = page.run(
        "return [...document.querySelectorAll('.mx button, .mx input, .mx [role]:not([hidden])')]"
        ".filter((e) => !e.textContent.trim() && !e.getAttribute('aria-label') &&"
        " !e.getAttribute('aria-labelledby') && !e.labels?.length).map((e) => e.outerHTML)"
    )
    assert names == []
    assert page.run("return document.querySelectorAll('.mx-message[tabindex=\"0\"]').length") == 1
    assert page.find(".mx").get_attribute("data-lm-suppress-shortcuts") == "true"
    seen = []
    focus(page)
    for _ in range(8):
        page.press(Keys.TAB)
        seen.append(
            page.run(
                "const e = document.activeElement, chip = e.querySelector?.('.mx-chip');"
                " return [e.getAttribute('aria-label') || e.textContent.slice(0, 30),"
                " getComputedStyle(e).outlineStyle !== 'none' ||"
                " (chip && getComputedStyle(chip).strokeWidth !== '1px')]"
            )
        )
    assert all(visible for _, visible in seen), seen
    order = [label for label, _ in seen]
    assert [o[:10] for o in order[:4]] == ["First step", "Step", "Step forwa", "Last step "]
    page.click("[data-tab=message]")
    page.press(Keys.ARROW_RIGHT)
    assert page.run("return document.activeElement.dataset.tab") == "knowledge"
    assert text(page, ".mx-counter") == "step 0 of 10"


def contrast(page, selector):
    """The least contrast of text to its ground among the elements (WCAG 2.1)."""
    return page.run(
        """
        const luminance = (c) => {
          const [r, g, b] = c.map((v) => v / 255).map((v) =>
            v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
        const ground = (e) => {
          for (; e; e = e.parentElement) {
            const c = numbers(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0.5) return c.slice(0, 3);
          }
          return [255, 255, 255];
        };
        return Math.min(...[...document.querySelectorAll(arguments[0])]
          .filter((e) => e.offsetParent && !e.disabled).map((e) => {
            const a = luminance(numbers(getComputedStyle(e).color).slice(0, 3));
            const b = luminance(ground(e));
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          }));
        """,
        selector,
    )


@pytest.mark.soak
@pytest.mark.parametrize("dark", [False, True])
def test_both_themes_are_readable(chrome, explorer, tmp_path, dark):
    explorer.edit(3, 1, "Respond", "R_i", "+ G")
    page = Page(chrome, explorer, tmp_path, dark=dark)
    assert page.find(".mx").get_attribute("data-theme") == ("dark" if dark else "light")
    focus(page)
    page.press(Keys.END)
    page.message("3>1 Respond").click()
    texts = ".mx-soft, .mx-badge, .mx-box div, .mx-party, .mx-check, .mx-button, .mx-tab, code, th"
    assert contrast(page, texts) >= 4.5
    page.click("[data-tab=knowledge]")
    assert contrast(page, ".mx-items li, .mx-items span, .mx-items code, .mx-h5") >= 4.5


@pytest.mark.soak
@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("width", [1200, 620])
def test_no_label_hides_another(chrome, tmp_path, session, width, even):
    chrome.set_window_size(width, 1200)
    try:
        page = Page(chrome, session, tmp_path)
        if (text(page, ".mx-toggle") == "Draw time to scale") != even:
            page.click(".mx-toggle")
        assert page.overlaps(".mx-chip-text") == []
        assert page.overlaps(".mx-column text") == []
        assert page.overlaps(".mx-axis") == []
        labels = len(page.all(".mx-chip-text"))
        assert labels >= 0.9 * len(session.view.messages)
        wide = page.run("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0
        assert page.errors() == []
    finally:
        chrome.set_window_size(1200, 1300)
        session._widget = None


@pytest.mark.soak
def test_a_page_that_nobody_answers_says_so(page):
    page.click("[data-tab=timing]")
    page.run(
        "const r = document.querySelector('[type=range][data-what=one_way_ms]'); r.value = 90;"
        "r.dispatchEvent(new Event('input'))"
    )
    page.until(lambda: "No answer yet" in text(page, ".mx-problem"))
    page.click("[aria-label^='Step forward']")
    assert text(page, ".mx-counter").startswith("step 1 of 10")
    assert page.answer() == 1
    assert text(page, ".mx-problem") == "", "late, but answered"


@pytest.mark.soak
@pytest.mark.parametrize("dark", [False, True])
def test_a_party_has_its_colour_whoever_else_signs(chrome, wallet, tmp_path, dark):
    seen = {}
    for signers in ((1, 3), (1, 2, 3)):
        page = Page(chrome, Explorer.live(wallet, "sign", signers=signers), tmp_path, dark=dark)
        page.click("[data-tab=knowledge]")
        ground = "return getComputedStyle(arguments[0]).backgroundColor"
        fill = "return getComputedStyle(arguments[0]).fill"
        badges = {int(e.text): page.run(ground, e) for e in page.all(".mx-knows .mx-party")}
        heads = {int(e.text.split()[0]): e for e in page.all(".mx-column text")}
        columns = {
            i: page.run(fill + ".trim()", page.run("return arguments[0].previousSibling", e))
            for i, e in heads.items()
        }
        assert badges == columns
        assert set(badges) == set(signers)
        seen[signers] = badges
    assert seen[1, 3] == {i: seen[1, 2, 3][i] for i in (1, 3)}
    for i, found in seen[1, 2, 3].items():
        own = party_colour(i).on_dark if dark else party_colour(i).on_light
        assert found == f"rgb({', '.join(str(b) for b in bytes.fromhex(own[1:]))})"


@pytest.mark.soak
@pytest.mark.parametrize("width", [1024, 600])
@pytest.mark.parametrize("key", ["1>3 Commit", "1>3 SignatureShare"])
def test_a_click_on_a_message_brings_its_panel_into_view(chrome, wallet, tmp_path, width, key):
    """Beside the diagram or below it, on a small screen; from the keyboard, too."""
    with window(chrome, width, 700):
        page = Page(chrome, Explorer.live(wallet, "sign", signers=(1, 3)), tmp_path)
        page.run("arguments[0].scrollIntoView({block: 'center'})", page.message(key))
        page.message(key).click()
        assert in_view(page, "[role=tabpanel]:not([hidden])")
        assert in_view(page, ".mx-panel:not([hidden]) .mx-h")
        page.click("[data-tab=timing]")
        page.run("arguments[0].focus()", page.message(key))
        page.press(Keys.SPACE)
        assert in_view(page, "[role=tabpanel]:not([hidden])")
        assert page.run("return document.activeElement.dataset.key") == key


@pytest.mark.soak
@pytest.mark.parametrize("width", [1024, 600])
def test_an_edit_goes_to_where_it_was_caught(chrome, wallet, tmp_path, width):
    """The step shown is the one at which the check failed, and the check is in view."""
    with window(chrome, width, 700):
        page = Page(chrome, Explorer.live(wallet, "sign", signers=(1, 3)), tmp_path)
        alter(page, "3>1 Respond", "R_i", "+ G")
        assert text(page, ".mx-counter").startswith("step 7 of 9")
        assert "aborted in round 4 (share)" in text(page, ".mx-now")
        assert "R_j opens the commitment of round 1" in text(page, ".mx-check.failed")
        assert in_view(page, ".mx-check.failed")
        assert page.message("3>1 Respond").get_attribute("aria-pressed") == "true"
        assert page.run("return document.activeElement.className") == "mx"
        # The way back stays where it is.
        page.run("[...document.querySelectorAll('.mx-altered button')].at(-1).click()")
        page.answer()
        assert text(page, ".mx-counter").startswith("step 7 of 10")
        assert page.errors() == []


def arrows(page):
    """Of every arrow: its message, how many pixels of it no label hides, whether its tip shows."""
    return page.run(
        """
        const chips = [...document.querySelectorAll("rect.mx-chip")].map((c) => c.getBBox());
        const hidden = (x, y) => chips.some((c) =>
          c.x < x && x < c.x + c.width && c.y < y && y < c.y + c.height);
        return [...document.querySelectorAll(".mx-arrow")].map((arrow) => {
          const line = arrow.querySelector(".mx-line");
          const [x0, y0, x1, y1] = ["x1", "y1", "x2", "y2"].map((n) => +line.getAttribute(n));
          const length = Math.hypot(x1 - x0, y1 - y0), n = Math.ceil(length);
          let seen = 0;
          for (let at = 0; at < n; at += 1) {
            seen += !hidden(x0 + (x1 - x0) * at / n, y0 + (y1 - y0) * at / n);
          }
          return [arrow.dataset.key, seen, !hidden(x1, y1) && line.hasAttribute("marker-end")];
        });
        """
    )


@pytest.mark.soak
@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("width", [1600, 1024, 700])
@pytest.mark.parametrize(
    ("signers", "edit"),
    [
        ((1, 3), (3, 1, "Respond", "R_i", "+ G")),
        ((1, 2, 3), (2, 3, "Commit", "nonce", "flip a bit")),
    ],
)
def test_a_notice_of_an_abort_has_its_arrow(chrome, wallet, tmp_path, signers, edit, width, even):
    """Sent when the run is all but over, it is on its way to the last."""
    explorer = Explorer.live(wallet, "sign", signers=signers).edit(*edit)
    with window(chrome, width, 900):
        page = Page(chrome, explorer, tmp_path)
        if (text(page, ".mx-toggle") == "Draw time to scale") != even:
            page.click(".mx-toggle")
        focus(page)
        page.press(Keys.END)
        notices = [arrow for arrow in arrows(page) if "AbortNotice" in arrow[0]]
        assert len(notices) == len([m for m in explorer.view.messages if m.kind == "AbortNotice"])
        for key, seen, tip in notices:
            assert seen >= 12, key
            assert tip, key
        assert page.overlaps(".mx-chip-text, .mx-end text") == []


def type_in(page, selector, value):
    page.run("arguments[0].select()", page.find(selector))
    page.find(selector).send_keys(value, Keys.ENTER)
    return page.answer()


def test_numbers_are_typed(page):
    page.click("[data-tab=timing]")
    for what, typed, value in (
        ("one_way_ms", "33.5", 33.5),
        ("mbit_per_s", "2.5", 2.5),
        ("loss", "7.5", 0.075),
    ):
        assert type_in(page, f"[type=text][data-what={what}]", typed) == 1
        assert getattr(page.explorer.view.links[0].now, what) == pytest.approx(value)
        assert page.find(f"[type=text][data-what={what}]").get_attribute("value") == typed
    assert text(page, ".mx-counter") == "step 0 of 10"
    range_ = page.find("[type=range][data-what=mbit_per_s]")
    assert range_.get_attribute("aria-valuetext") == "2.5 Mbit/s"
    range_.send_keys(Keys.ARROW_RIGHT)
    assert page.answer() == 1
    assert page.explorer.view.links[0].now.mbit_per_s == pytest.approx(2.81)
    page.click(".mx-restore")
    page.answer()
    assert page.explorer.view.links[0].now == page.explorer.view.links[0].at_first
    assert page.errors() == []


def heads(page):
    """How far below its frame's upper edge the heads of the columns are."""
    return page.run(
        "return document.querySelector('.mx-heads').getBoundingClientRect().top -"
        " document.querySelector('.mx-frame').getBoundingClientRect().top"
    )


def scrolled(page):
    return page.run("return document.querySelector('.mx-frame').scrollTop")


@pytest.mark.soak
def test_zoom_by_buttons_keys_and_wheel(page):
    tall = "return document.querySelector('.mx-frame svg:not(.mx-heads)').clientHeight"
    whole = page.run(tall)
    assert page.find("[aria-label^='Zoom out']").get_attribute("disabled")
    page.click("[aria-label^='Zoom in']")
    assert text(page, ".mx-factor") == "× 1.5"
    assert page.run(tall) > 1.3 * whole
    focus(page)
    page.press("+", "+", "+")
    assert text(page, ".mx-factor") == "× 4"
    assert page.run(tall) > 3 * whole
    frame = page.find(".mx-frame")
    assert frame.size["height"] < 1.2 * whole, "the page does not grow with it"
    page.press(Keys.HOME, Keys.PAGE_DOWN)
    at = scrolled(page)
    assert at > 0
    assert heads(page) == pytest.approx(page.run("return arguments[0].clientTop", frame), abs=1)
    page.press(Keys.PAGE_UP)
    assert scrolled(page) < at
    wheel = (
        "const f = document.querySelector('.mx-frame'), b = f.getBoundingClientRect();"
        "return f.dispatchEvent(new WheelEvent('wheel', { deltaY: arguments[0], cancelable: true,"
        " ctrlKey: arguments[1], bubbles: true, clientX: b.left + 9, clientY: b.top + 200 }))"
    )
    assert page.run(wheel, -100, False), "without a modifier the page scrolls"
    assert text(page, ".mx-factor") == "× 4"
    assert not page.run(wheel, -100, True)
    assert text(page, ".mx-factor") == "× 6"
    for _ in range(4):
        page.run(wheel, 10, True)  # as fingers do it
    page.press("-")
    assert text(page, ".mx-factor") == "× 3"
    page.press("0")
    assert text(page, ".mx-factor") == "× 1"
    assert page.run(tall) == whole
    assert page.overlaps(".mx-chip-text") == []
    assert page.errors() == []


@pytest.mark.soak
def test_search_by_keyboard(page):
    focus(page)
    page.press("/")
    box = page.find(".mx-query")
    assert page.run("return document.activeElement") == box
    page.press("gamma_u")
    assert text(page, ".mx-hits") == "2 found"
    marked = [e.get_attribute("data-key") for e in page.all(".mx-message.found")]
    assert sorted(marked) == ["1>3 Respond", "3>1 Respond"]
    assert len(page.all(".mx-message.faded")) == 6
    page.press(Keys.ENTER)
    first = page.run("return window.model.get('selected')")
    assert first in marked
    assert text(page, ".mx-hits").startswith("1 of 2: Respond")
    assert "Gamma_u" in text(page, ".mx-table tr.found")
    focus(page)
    page.press("n")
    assert page.run("return window.model.get('selected')") != first
    page.press("n")
    assert page.run("return window.model.get('selected')") == first
    page.press("N")
    assert page.run("return window.model.get('selected')") != first
    page.press(Keys.ESCAPE)
    assert box.get_attribute("value") == text(page, ".mx-hits") == ""
    assert not page.all(".found, .faded")
    assert page.errors() == []


@pytest.mark.soak
@pytest.mark.parametrize("width", [1440, 1024, 700])
def test_nothing_overflows(chrome, wallet, tmp_path, width):
    explorer = Explorer.live(wallet, "sign", signers=(1, 2, 3), reveal=True)
    with window(chrome, width, 900):
        page = Page(chrome, explorer, tmp_path)
        explorer.edit(3, 1, "Respond", "R_i", "+ G").set_link("client", "gateway", loss=0.1)
        page.answer()
        page.find(".mx-query").send_keys("respond", Keys.ENTER)
        for tab in ("message", "knowledge", "timing"):
            page.click(f"[data-tab={tab}]")
            wide = page.run(
                "return [...document.querySelectorAll('.mx *:not(svg *)')].filter((e) =>"
                " e.offsetParent && e.scrollWidth > e.clientWidth + 1 && e.clientWidth &&"
                " getComputedStyle(e).display !== 'inline' && !e.matches('.mx-hits, input'))"
                ".map((e) => e.className)"
            )
            assert wide == [], tab
        assert page.overlaps(".mx-number-cell > *, .mx-linkset > :first-child") == []
        assert page.overlaps(".mx-head .mx-button, .mx-head input, .mx-head output") == []


@pytest.mark.soak
def test_a_saved_session_opens_without_python(chrome, explorer, tmp_path):
    """Saved by the button, kept by the browser, opened from the disk."""
    chrome.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    explorer.edit(3, 1, "Respond", "R_i", "+ G")
    page = Page(chrome, explorer, tmp_path)
    focus(page)
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    page.click(".mx-save")
    assert page.answer() == 1
    path = tmp_path / "sign-secp256k1.html"
    page.until(path.exists)
    chrome.get(path.as_uri())
    page.until(lambda: page.all(".mx-message"))
    assert text(page, ".mx-counter").startswith("step 3 of 9")
    assert "editing and links are off" in text(page, ".mx-title")
    assert "party 3 to party 1: Respond.R_i: + G" in text(page, ".mx-altered")
    assert not page.all(".mx-save, .warning")
    focus(page)
    page.press(Keys.END)
    assert text(page, ".mx-counter").startswith("step 9 of 9")
    page.click(".mx-abort button")
    assert "aborted in round 4 (share)" in text(page, ".mx-now")
    assert "R_j opens the commitment of round 1" in text(page, ".mx-check.failed")
    page.message("1>3 Commit").click()
    nonce = next(f for f in explorer.details["1>3 Commit"].fields if f.name == "nonce")
    assert nonce.value in text(page, ".mx-table").replace("\n", "")
    page.click("[data-tab=knowledge]")
    assert "R_3" in text(page, ".mx-knows")
    assert "value not shown" in text(page, ".mx-knows")
    live = page.run(
        "return [...document.querySelectorAll('.mx-edit, .mx-altered button, .mx-typed, .mx-seed *,"
        " .mx-number-cell input')].filter((e) => 'disabled' in e && !e.disabled).length"
    )
    assert live == 0
    page.click("[data-tab=timing]")
    assert "needs Python" in text(page, ".mx-panel:not([hidden])")
    page.find(".mx-query").send_keys("Offer", Keys.ENTER)
    assert "1 of" in text(page, ".mx-hits")
    assert [e for e in chrome.get_log("browser") if e["level"] == "SEVERE"] == []


def test_malicious_names_are_shown_as_they_are(chrome, tmp_path):
    explorer = nasty_explorer()
    path = explorer.export_html(tmp_path / "session.html")
    chrome.get(path.as_uri())
    assert "<script>window.pwned=1" in chrome.find_element("css selector", ".mx-network").text
    assert chrome.execute_script("return window.pwned") is None
    page = Page(chrome, explorer, tmp_path)
    page.click("[data-tab=timing]")
    assert "onerror=window.pwned=1" in text(page, ".mx-linkset")
    assert page.run("return window.pwned") is None


SAVED = "window.saved = null; URL.createObjectURL = (blob) => { window.saved = blob; return '#'; }"


@pytest.mark.soak
def test_enter_applies_a_number_and_says_beside_it_what_is_wrong(page):
    """Enter is the widget's own key: JupyterLab keeps the browser's change event from it."""
    page.click("[data-tab=timing]")
    page.run(
        "document.querySelector('.mx').addEventListener('change', (e) => e.stopPropagation(), true)"
    )
    box = page.find(".mx-typed[data-what=one_way_ms]")
    for typed, said in (("-5", "at least 0"), ("abc", "'abc' is not a number")):
        box.clear()
        box.send_keys(typed, Keys.ENTER)
        page.until(lambda: page.run("return window.commands.length"))
        page.answer()
        beside = page.find(".mx-number-cell .mx-beside")
        assert said in beside.text
        assert box.get_attribute("aria-invalid") == "true"
    box.clear()
    box.send_keys("7", Keys.ENTER)
    page.answer()
    assert not page.all(".mx-beside")
    assert page.explorer.network.links[0].latency.mean_ms == pytest.approx(7)


@pytest.mark.soak
def test_the_diagram_is_saved_as_a_picture(page):
    page.run(SAVED)
    page.click("[data-save=svg]")
    page.run("window.saved.text().then((text) => { window.picture = text; })")
    picture = page.until(lambda: page.run("return window.picture"))
    assert picture.startswith("<svg")
    assert "Commit" in picture
    assert "var(" not in picture
    page.run(SAVED)
    page.click("[data-save=png]")
    assert page.until(lambda: page.run("return window.saved && window.saved.type")) == "image/png"
    assert page.run("return window.saved.size") > 10_000
    assert page.errors() == []
