package conformance

import (
	"fmt"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner) any{
	"tree.new":      func(r *runner) any { return r.put(0, try(ckpt.NewTree())) },
	"tree.parse":    func(r *runner) any { return r.put(0, try(ckpt.ParseTree([]byte(r.words[1])))) },
	"tree.json":     func(r *runner) any { return words{string(try(r.tree().JSON()))} },
	"tree.key":      func(r *runner) any { return done(r.tree().Key(r.words[1])) },
	"tree.key_int":  func(r *runner) any { return done(r.tree().KeyInt(r.int(1))) },
	"tree.null":     func(r *runner) any { return done(r.tree().AddNull()) },
	"tree.bool":     func(r *runner) any { return done(r.tree().AddBool(r.int(1) != 0)) },
	"tree.int":      func(r *runner) any { return done(r.tree().AddInt(r.int(1))) },
	"tree.bigint":   func(r *runner) any { return done(r.tree().AddDigits(r.words[1])) },
	"tree.float":    func(r *runner) any { return done(r.tree().AddFloat(r.parseFloat(r.words[1]))) },
	"tree.text":     func(r *runner) any { return done(r.tree().AddText(r.words[1])) },
	"tree.bytes":    func(r *runner) any { return done(r.tree().AddBytes([]byte(r.words[1]))) },
	"tree.tensor":   func(r *runner) any { return fields{"path": try(r.tree().AddTensor(r.optionalName()))} },
	"tree.begin":    runTreeBegin,
	"tree.end":      func(r *runner) any { return done(r.tree().End()) },
	"tree.count":    func(r *runner) any { return words{fmt.Sprint(try(r.tree().Len()))} },
	"tree.node":     runTreeNode,
	"tree.find":     func(r *runner) any { return words{fmt.Sprint(try(r.tree().Find(r.unsigned(1), r.words[2])))} },
	"tree.find_int": func(r *runner) any { return words{fmt.Sprint(try(r.tree().FindInt(r.unsigned(1), r.int(2))))} },
	"tree.native":   func(r *runner) any { return r.put(1, try(ckpt.EncodeTree(try(r.tree().Value())))) },
})

func (r *runner) tree() *ckpt.Tree { return get[*ckpt.Tree](r, 0) }

func runTreeBegin(r *runner) any {
	kind := parseName[ckpt.NodeKind](r, r.words[1])
	class, given := r.keys["class"]
	switch {
	case given && kind == ckpt.NodeRecord:
		return done(r.tree().BeginRecord(class))
	case given:
		return done(refused("only a record has a class"))
	default:
		return done(r.tree().Begin(kind))
	}
}

func runTreeNode(r *runner) any {
	node := try(r.tree().At(r.unsigned(1)))
	others := fields{}
	if node.Kind == ckpt.NodeBytes {
		others["Text"], others["bytes"] = "", node.Text
	}
	for key, link := range map[string]uint64{
		"FirstChild": node.FirstChild, "NextSibling": node.NextSibling, "Parent": node.Parent,
	} {
		if link == ckpt.NodeEnd {
			others[key] = "-"
		}
	}
	return record(node, others)
}
