package conformance

import (
	"fmt"
	"strconv"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"tree.new":      func(r *runner) { r.put(0, try(ckpt.NewTree())) },
	"tree.parse":    func(r *runner) { r.put(0, try(ckpt.ParseTree([]byte(r.words[1])))) },
	"tree.json":     func(r *runner) { r.expectWords(1, string(try(r.tree().JSON()))) },
	"tree.key":      func(r *runner) { must(r.tree().Key(r.words[1])) },
	"tree.key_int":  func(r *runner) { must(r.tree().KeyInt(r.int(1))) },
	"tree.null":     func(r *runner) { must(r.tree().AddNull()) },
	"tree.bool":     func(r *runner) { must(r.tree().AddBool(r.int(1) != 0)) },
	"tree.int":      func(r *runner) { must(r.tree().AddInt(r.int(1))) },
	"tree.bigint":   func(r *runner) { must(r.tree().AddDigits(r.words[1])) },
	"tree.float":    func(r *runner) { must(r.tree().AddFloat(r.parseFloat(r.words[1]))) },
	"tree.text":     func(r *runner) { must(r.tree().AddText(r.words[1])) },
	"tree.bytes":    func(r *runner) { must(r.tree().AddBytes([]byte(r.words[1]))) },
	"tree.tensor":   func(r *runner) { r.expect("path", try(r.tree().AddTensor(r.optionalName()))) },
	"tree.begin":    runTreeBegin,
	"tree.end":      func(r *runner) { must(r.tree().End()) },
	"tree.count":    func(r *runner) { r.expectWords(1, fmt.Sprint(try(r.tree().Len()))) },
	"tree.node":     runTreeNode,
	"tree.find":     func(r *runner) { r.expectWords(3, fmt.Sprint(try(r.tree().Find(r.unsigned(1), r.words[2])))) },
	"tree.find_int": func(r *runner) { r.expectWords(3, fmt.Sprint(try(r.tree().FindInt(r.unsigned(1), r.int(2))))) },
	"tree.native":   func(r *runner) { r.put(1, try(ckpt.EncodeTree(try(r.tree().Value())))) },
})

func (r *runner) tree() *ckpt.Tree { return get[*ckpt.Tree](r, 0) }

func runTreeBegin(r *runner) {
	kind := parseName[ckpt.NodeKind](r, r.words[1])
	class, given := r.value("class")
	switch {
	case given && kind == ckpt.NodeRecord:
		must(r.tree().BeginRecord(class))
	case given:
		must(refused("only a record has a class"))
	default:
		must(r.tree().Begin(kind))
	}
}

func runTreeNode(r *runner) {
	node := try(r.tree().At(r.unsigned(1)))
	text, octets := node.Text, ""
	if node.Kind == ckpt.NodeBytes {
		text, octets = "", node.Text
	} else if _, given := r.value("bytes"); given {
		r.fail("expected bytes, found %v", node.Kind)
	}
	r.expect("kind", node.Kind)
	r.expect("key_kind", node.KeyKind)
	r.expect("key", node.Key)
	r.expect("key_int", node.KeyInt)
	r.expect("bool", node.Bool)
	r.expect("int", node.Int)
	r.expectFloat("float", node.Float)
	r.expect("text", text)
	r.expect("bytes", octets)
	r.expect("child_count", node.ChildCount)
	for key, link := range map[string]uint64{
		"first_child": node.FirstChild, "next_sibling": node.NextSibling, "parent": node.Parent,
	} {
		found := "-"
		if link != ckpt.NodeEnd {
			found = strconv.FormatUint(link, 10)
		}
		r.expect(key, found)
	}
}
