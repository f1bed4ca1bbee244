#!/usr/bin/env python3
"""What a person sees and does in the pages of ckpt report: a store of 2,000 checkpoints, a checkpoint of 100,000
tensors, and a difference, in Chromium, light and dark.

  browser_test.py CKPT SAVE_MANY_PROGRAM FOLDER     needs playwright; leaves the pages and pictures of them in FOLDER
"""
import shutil
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

TOOL, PROGRAM, FOLDER = (Path(argument).resolve() for argument in sys.argv[1:])


def run(*arguments):
    start = time.monotonic()
    subprocess.run([str(a) for a in arguments], cwd=FOLDER, check=True)
    print(f"{time.monotonic() - start:6.1f} s  {' '.join(Path(str(a)).name for a in arguments)}", flush=True)


def make_pages():
    run(PROGRAM, "store", "main", 1500, 5, 1)
    run(PROGRAM, "store", "other", 500, 5, 1)
    run(TOOL, "rm", "store@step:700", "--run", "main")
    run(PROGRAM, "big", "main", 2, 100_000, 4)
    run(TOOL, "report", "store", "-o", "store.html")
    run(TOOL, "report", "big@latest", "--stats", "-o", "checkpoint.html")
    run(TOOL, "report", "big@step:0", "big@step:1", "-o", "comparison.html")


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
    page.locator(".head button", has_text="Saved").click()
    expect(page.locator(".row:not(.head)").first).to_contain_text("step-0.1.1")
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
    page.get_by_role("searchbox").first.fill("</script>")
    expect(page.get_by_text("1 row of 100,004")).to_be_visible()
    page.locator(".row:not(.head)").first.click()
    expect(page.get_by_text("broken'</script> · f32, 8 × 2")).to_be_visible()
    assert "rank 3" in hover(page, "Map of the tensor's boxes", 0.5, 0.9)
    expect(page.locator("section svg").first).to_be_visible()


def use_comparison(page):
    expect(page.locator(".tile").first).to_have_text("100,000tensors that both have")
    assert "of all bytes" in hover(page, "Tensors by their bytes", 0.9, 0.9)
    shares = [float(text.split()[0]) for text in page.locator(".row:not(.head) > :nth-child(4)").all_inner_texts()]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0, shares


def look(browser, name, use, scheme):
    page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme=scheme)
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    start = time.monotonic()
    page.goto((FOLDER / f"{name}.html").as_uri())
    expect(page.locator(".row:not(.head)").first).to_be_visible()
    print(f"{time.monotonic() - start:6.1f} s  {name}, {scheme}", flush=True)
    page.wait_for_timeout(300)
    page.screenshot(path=FOLDER / f"{name}-{scheme}.png", full_page=True)
    use(page)
    assert page.evaluate("document.querySelectorAll('*').length") < 1000
    assert len(asked) == 1 and not wrong, (asked, wrong)
    page.close()


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    make_pages()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, use in ("store", use_store), ("checkpoint", use_checkpoint), ("comparison", use_comparison):
            for scheme in "light", "dark":
                look(browser, name, use, scheme)
        browser.close()


main()
