// ckptread reads a checkpoint of the ckpt format. It was written from schemas/FORMAT.md, and TABLE_RUNS.md.
package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

var dtypes = map[uint16]string{0x004: "i4", 0x008: "i8", 0x010: "i16", 0x020: "i32", 0x040: "i64", 0x104: "u4",
	0x108: "u8", 0x110: "u16", 0x120: "u32", 0x140: "u64", 0x210: "f16", 0x220: "f32", 0x240: "f64", 0x520: "c32",
	0x540: "c64", 0x580: "c128", 0x410: "bf16", 0x608: "bool", 0x708: "f8_e3m4", 0x808: "f8_e4m3",
	0x908: "f8_e4m3b11fnuz", 0xa08: "f8_e4m3fn", 0xb08: "f8_e4m3fnuz", 0xc08: "f8_e5m2", 0xd08: "f8_e5m2fnuz",
	0xe08: "f8_e8m0fnu", 0xf06: "f6_e2m3fn", 0x1006: "f6_e3m2fn", 0x1104: "f4_e2m1fn"}

func sha(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// describe reads every chunk, and gives what the golden files say.
func (c *Checkpoint) describe() map[string]any {
	attrs, tables, objects := map[string]map[string]string{"": {}}, map[string]any{}, []any{}
	tensors, aliases, s := map[string]any{}, map[string]any{}, c.Summary
	entry := func(name string, t *tensor, b []byte) map[string]any {
		attrs[name] = map[string]string{}
		dtype := cmp.Or(dtypes[t.dtype], fmt.Sprintf("opaque%d_%d", t.dtype>>8, t.bits))
		return map[string]any{"attrs": attrs[name], "dtype": dtype, "shape": t.shape, "sha256": sha(b)}
	}
	for n, t := range c.tensors {
		tensors[n] = entry(n, t, t.data())
	}
	for n, a := range c.aliases {
		t := c.tensors[a.target]
		e := entry(n, t, t.data())
		if e["target"], e["view"] = a.target, nil; a.view {
			e["view"] = map[string]any{"extents": a.extents, "offset": a.offset, "strides": a.strides}
			e["shape"], e["sha256"] = a.extents, sha(viewData(t.data(), t.bits, a, "alias "+quoted(n)))
		}
		aliases[n] = e
	}
	for k, v := range c.attrs {
		attrs[k.owner][k.key] = v
		if _, isAlias := c.aliases[k.owner]; isAlias && k.key == "ckpt.table" && v != "" {
			tables[k.owner] = c.readTable(k.owner, v)
		}
	}
	for _, n := range sortedKeys(c.objects) {
		o := c.objects[n]
		for _, r := range o.parts {
			b := c.parts[r].objectData(n)
			rank := map[bool]any{false: r}[o.Scope == 0]
			objects = append(objects, map[string]any{"media_type": o.media, "name": n, "rank": rank, "size": len(b),
				"sha256": sha(b)})
		}
	}
	out := map[string]any{"aliases": aliases, "attrs": attrs[""], "objects": objects, "tensors": tensors,
		"identity": map[string]any{"label": s.Label, "run": s.Run, "step": s.Step, "world_size": s.World}}
	if len(tables) > 0 {
		out["tables"] = tables
	}
	return out
}

// dump prints JSON with sorted keys, one value a line.
func dump(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	err := e.Encode(v)
	need(err == nil, "IO", "the output", "JSON", "written", err)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ckptread CHECKPOINT")
		os.Exit(2)
	}
	if err := guard(func() { dump(os.Stdout, openCheckpoint(os.Args[1]).describe()) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
