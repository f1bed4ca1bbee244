#!/usr/bin/env python3
"""What a person sees and does in the pages of ckpt report: a store of 2,000 checkpoints, a checkpoint of 100,000
tensors, a difference, an empty store, and one whose numbers nobody would believe, in Chromium, light and dark.

  browser_test.py CKPT SAVE_MANY_PROGRAM FOLDER     needs playwright; leaves the pages and pictures of them in FOLDER
"""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

TOOL, PROGRAM, FOLDER = (Path(argument).resolve() for argument in sys.argv[1:])


def make_pages():
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "none").mkdir(parents=True)
    for command in (
            f"{PROGRAM} store main 1500 5 1", f"{PROGRAM} store other 500 5 1", f"{PROGRAM} big main 2 100000 4",
            f"{TOOL} rm store@step:700 --run main", f"{TOOL} report store -o store.html",
            f"{TOOL} report big@latest --stats -o checkpoint.html",
            f"{TOOL} report big@step:0 big@step:1 -o comparison.html", f"{TOOL} report none -o empty.html"):
        subprocess.run(command.split(), cwd=FOLDER, check=True)
    # A store whose clocks were wrong, whose steps are large, and whose loss is NaN.
    head, mark, data = (FOLDER / "store.html").read_text().rpartition('type="application/json">\n')
    told = json.loads(data.partition("</script>")[0])
    told["entries"] = one, two, three = told["entries"][:3]
    one.update(time=2**64 - 1, created_unix_ms=2**64 - 1, step=2**63 - 1)
    two.update(step=2**63 - 2, attrs={"trainer.metrics": '{\n"loss": NaN, "\u202eevil": 1e18}', "one": "[1, NaN, 3]"})
    three.update(state="damaged", step=None, time=0, created_unix_ms=0, attrs=None)
    (FOLDER / "strange.html").write_text(f"{head}{mark}{json.dumps(told)}</script></body></html>")


def part(page, title):
    return page.locator("section", has=page.get_by_role("heading", name=title, exact=True))


def rows(page):
    return page.locator(".row:not(.head)")


def hover(page, label, x, y):
    """Points at a place of a picture, as shares of its size; gives what the page says of it."""
    canvas = page.get_by_role("img", name=label, exact=True).first
    canvas.scroll_into_view_if_needed()
    size = canvas.bounding_box()
    canvas.hover(position={"x": x * size["width"], "y": y * size["height"]})
    return page.locator("#tip").inner_text()


def use_store(page):
    expect(page.locator(".tile").first).to_have_text("1,999complete checkpoints")
    expect(page.locator(".tile", has_text="removed")).to_have_text("1removed since they were saved")
    expect(page.locator(".tile", has_text="newest")).to_contain_text("step 499")
    words = [hover(page, "Time line of runs", x / 200, 0.2) for x in range(10, 199)]
    assert any("step-1499.1.1" in w and "latest of its run" in w for w in words), words[-9:]
    assert any("the trainer keeps this label" in w for w in words)
    growth = "Of all that are here now, as they came (what was removed is not in it)"
    assert "MiB up to" in hover(page, growth, 0.5, 0.5)
    assert "rank 3" in hover(page, "save.seconds", 0.5, 0.5)
    page.get_by_role("button", name="By step").click()
    assert "step 1,499" in hover(page, "Size of each checkpoint", 0.975, 0.5)
    page.mouse.down()
    hover(page, "Size of each checkpoint", 0.5, 0.5)
    page.mouse.up()
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("searchbox").fill("step-77.1.1")
    expect(page.get_by_text("1 row of 1,999")).to_be_visible()
    page.get_by_role("searchbox").fill("")
    page.locator(".head button", has_text="Saved").press("Enter")
    expect(page.locator(".head button", has_text="Saved")).to_be_focused()
    expect(rows(page).first).to_contain_text("step-0.1.1")
    page.locator(".grid").evaluate("grid => { grid.scrollTop = 1e9; }")
    expect(page.locator(".row", has_text="step-499.2.1")).to_be_visible()


def use_checkpoint(page):
    expect(page).to_have_title("step-1.1.1 – ckpt report")
    assert "optimizer" in hover(page, "Tensors by their bytes", 0.01, 0.01)
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("button", name="optimizer")).to_be_disabled()
    page.get_by_role("button", name="everything").click()
    expect(page.get_by_role("button", name="optimizer")).to_have_count(0)
    tensors, chosen = part(page, "All tensors"), part(page, "Chosen tensor")
    tensors.get_by_role("searchbox").fill("odd/")
    expect(tensors.get_by_text("rows of 100,004")).to_be_visible()
    for name in rows(tensors).all_inner_texts():  # the keyboard chooses each of them
        tensors.locator(".grid").press("ArrowDown")
        expect(chosen).to_contain_text(name.split("\n")[0])
    tensors.get_by_role("searchbox").fill("</script>")
    rows(tensors).first.click()
    expect(page.get_by_text(re.compile("broken'</script> · f32, 8 × 2 .* count 16"))).to_be_visible()
    assert "rank 3" in hover(page, "Map of the tensor's boxes", 0.5, 0.9)
    expect(chosen.locator("svg")).to_be_visible()
    expect(rows(part(page, "What each rank wrote"))).to_have_count(4)
    expect(rows(part(page, "Sparse tables")).first).to_contain_text("2.13 × the mean")


def use_comparison(page):
    expect(page.locator(".tile").first).to_have_text("100,000tensors that both have")
    assert "of all bytes" in hover(page, "Tensors by their bytes", 0.9, 0.9)
    shares = [float(text.split()[0]) for text in page.locator(".row:not(.head) > :nth-child(4)").all_inner_texts()]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0, shares


def use_strange(page):
    expect(page.get_by_text("2 without a time")).to_be_visible()
    assert "NaN or infinite" in hover(page, "trainer.metrics: loss", 0.5, 0.5)
    assert "largest NaN or infinite (rank 1)" in hover(page, "one", 0.5, 0.5)
    expect(page.get_by_role("heading", name="trainer.metrics: \\u202eevil")).to_be_visible()
    expect(rows(page).filter(has_text="9,223,372,036,854,775,806")).to_have_count(1)
    page.get_by_role("button", name="By step").click()
    assert "9,223,372,036,854,775," in hover(page, "Time line of runs", 0.525, 0.2)


def use_empty(page):
    expect(page.get_by_text("Nothing is here")).to_be_visible()


def look(browser, name, scheme):
    page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme=scheme)
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.goto((FOLDER / f"{name}.html").as_uri())
    expect(page.locator("#subtitle")).to_contain_text("ckpt report, made")
    page.wait_for_timeout(300)
    page.screenshot(path=FOLDER / f"{name}-{scheme}.png", full_page=True)
    globals()[f"use_{name}"](page)
    assert page.evaluate("document.querySelectorAll('*').length") < 1000
    assert len(asked) == 1 and not wrong, (asked, wrong)
    page.close()


make_pages()
with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    for page_name in "store", "checkpoint", "comparison", "strange", "empty":
        for colors in "light", "dark":
            look(chromium, page_name, colors)
    chromium.close()
