"""The references, made of the sources: the headers (cmake/api.py), the tool's help, Go's and Julia's comments.

Those of Python and Rust are made by mkdocstrings and rustdoc (mkdocs.yml, tools/docs).
"""
import re
import subprocess
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cmake"))
import api  # noqa: E402

HEADERS = ("ckpt.h", "ckpt_maintain.h", "ckpt_table.h", "ckpt_tree.h", "ckpt_keeper.h", "ckpt_file.h")


def prose(text):
    """A comment as Markdown: outside of `code`, no character of C means anything."""
    pieces = re.split(r"(`[^`\n]+`)", text)
    pieces[::2] = [re.sub(r"([*_<>|#\[\]])", r"\\\1", piece) for piece in pieces[::2]]
    return re.sub(r"(\bStatuses:|\bOptions:)", r"\n\n**\1**", "".join(pieces))


def row(*cells):
    return "| " + " | ".join(str(cell).replace("\n", " ") for cell in cells) + " |\n"


def table(heads, rows):
    return row(*heads) + row(*["---"] * len(heads)) + rows + "\n"


def code(word):
    return f"`{word}`" if word else ""


def function(item):
    arguments = ",\n    ".join(declaration(one) for one in item["arguments"]) or "void"
    return f"### {item['name']}\n\n```c\n{item['returns']} {item['name']}({arguments});\n```\n\n{prose(item['text'])}\n\n"


def declaration(argument):
    kind, name = argument["type"], argument["name"]
    return kind.replace("(*", f"(*{name}", 1) if "(*" in kind else f"{kind} {name}"


def struct(item):
    rows = "".join(row(code(field["name"]), code(field["type"]), prose(field["text"])) for field in item["fields"])
    return f"### {item['name']}\n\n{prose(item['text'])}\n\n" + table(("field", "type", ""), rows)


def enum(item):
    rows = "".join(row(code(value["name"]), value["value"], prose(value["text"])) for value in item["values"])
    return f"### {item['name']}\n\n{prose(item['text'])}\n\n" + table(("value", "", ""), rows)


def header(name, root, interface):
    """Its opening comment says how to read it."""
    opening = re.match(api.COMMENT, (root / "include" / name).read_text())
    text = f"# {name}\n\n" + (f"```text\n{api.plain(opening[0])}\n```\n\n" if opening else "")
    for title, key, show in (("Functions", "functions", function), ("Structs", "structs", struct),
                             ("Enums", "enums", enum)):
        found = [show(item) for item in interface[key] if item["header"] == name]
        text += f"## {title}\n\n" + "".join(found) if found else ""
    return text


def options(interface):
    rows = "".join(row(code(item["key"]), code(item["fallback"]), item.get("choices", "").replace("|", ", "),
                       prose(item["help"]), " ".join(map(code, item["calls"])))
                   for item in interface["options"])
    return "# Options\n\n" + table(("key", "default", "choices", "", "calls"), rows)


def output(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def tool(program):
    """What `ckpt help` prints, command by command."""
    whole = output(program, "help")
    names = re.findall(r"^  ([a-z]+)  ", whole.partition("Subcommands:")[2], flags=re.M)
    return f"# The tool\n\n```text\n{whole}```\n\n" + "".join(
        f"## ckpt {name}\n\n```text\n{output(program, 'help', name)}```\n\n" for name in names if name != "help")


def go(root):
    """What `go doc` prints: after the package's own comment, calls at the margin, and their comments indented."""
    opening, _, rest = output("go", "doc", "-all", ".", cwd=root / "bindings/go").partition("\nCONSTANTS\n")
    text = "# Go\n\n" + re.sub("^# ", "## ", opening.partition("\n\n")[2], flags=re.M) + "\n## Constants\n"
    for block in re.findall(r"(?:^(?!    ).+\n|\n(?=\t|\n\t|[)}]))+|(?:^    .*\n|\n(?=    ))+", rest, flags=re.M):
        block = block.strip("\n")
        name = re.match(r"(?:func|type) (?:\(.*?\) )?(\w+)", block)
        if re.fullmatch("[A-Z]+", block):
            text += f"\n## {block.capitalize()}\n"
        elif block.startswith("    "):
            text += f"\n{prose(textwrap.dedent(block))}\n"
        elif block:
            text += (f"\n### {name[1]}\n" if name else "") + f"\n```go\n{block}\n```\n"
    return text


def julia(root):
    """The docstrings, which are Markdown: their first line, indented, is the call."""
    text = "# Julia\n\n"
    for path in sorted((root / "bindings/julia/src").glob("*.jl")):
        found = re.findall(r'^"""\n    (.*)\n((?:.*\n)*?)"""\n(?!module)', path.read_text(), flags=re.M)
        text += "".join(f"### {re.split(r'[({]', call)[0]}\n\n```julia\n{call.strip()}\n```\n{rest}\n"
                        for call, rest in found)
    return re.sub(r"\[([^\]]+)\]\(@ref\)", r"\1", text)


def all_of(root, program):
    interface = api.of_sources(root)
    made = {f"reference/c/{name}.md": header(name, root, interface) for name in HEADERS}
    return made | {
        "reference/options.md": options(interface), "reference/tool.md": tool(program), "reference/julia.md": julia(root),
        "reference/go.md": go(root),
        "reference/python.md": "# Python\n\n::: ckpt\n\n## open\n\n::: ckpt.opening.open\n"
                               + "".join(f"\n## ckpt.{name}\n\n::: ckpt.{name}\n" for name in ("dcp", "hf", "lightning")),
    }
