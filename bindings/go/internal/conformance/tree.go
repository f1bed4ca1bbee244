package conformance

import (
	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(
	command{"tree.new", 1, 0, runTreeNew},
	command{"tree.parse", 2, 0, runTreeParse},
	command{"tree.json", 2, 0, runTreeJSON},
	command{"tree.key", 2, 0, func(r *runner, l *line) error { return r.tree(l).Key(l.words[1]) }},
	command{"tree.key_int", 2, 0, func(r *runner, l *line) error { return r.tree(l).KeyInt(r.parseInt(l.words[1])) }},
	command{"tree.null", 1, 0, func(r *runner, l *line) error { return r.tree(l).AddNull() }},
	command{"tree.bool", 2, 0, func(r *runner, l *line) error { return r.tree(l).AddBool(r.parseInt(l.words[1]) != 0) }},
	command{"tree.int", 2, 0, func(r *runner, l *line) error { return r.tree(l).AddInt(r.parseInt(l.words[1])) }},
	command{"tree.bigint", 2, 0, func(r *runner, l *line) error { return r.tree(l).AddDigits(l.words[1]) }},
	command{"tree.float", 2, 0, func(r *runner, l *line) error { return r.tree(l).AddFloat(r.parseFloat(l.words[1])) }},
	command{"tree.text", 2, 0, func(r *runner, l *line) error { return r.tree(l).AddText(l.words[1]) }},
	command{"tree.bytes", 2, 0, func(r *runner, l *line) error { return r.tree(l).AddBytes(r.parseHex(l.words[1])) }},
	command{"tree.tensor", 1, takesPairs, runTreeTensor},
	command{"tree.begin", 2, takesPairs, runTreeBegin},
	command{"tree.end", 1, 0, func(r *runner, l *line) error { return r.tree(l).End() }},
	command{"tree.count", 2, 0, runTreeCount},
	command{"tree.node", 2, takesPairs, runTreeNode},
	command{"tree.find", 4, 0, runTreeFind},
	command{"tree.find_int", 4, 0, runTreeFindInt},
	command{"tree.native", 2, 0, runTreeNative},
)

func (r *runner) tree(l *line) *ckpt.Tree { return get[*ckpt.Tree](r, l.words[0]) }

func runTreeNew(r *runner, l *line) error {
	made, err := ckpt.NewTree()
	return keep(r, l.words[0], made, err)
}

func runTreeParse(r *runner, l *line) error {
	made, err := ckpt.ParseTree([]byte(l.words[1]))
	return keep(r, l.words[0], made, err)
}

func runTreeJSON(r *runner, l *line) error {
	found, err := r.tree(l).JSON()
	if err == nil && string(found) != l.words[1] {
		r.fail("expected %s, found %s", l.words[1], found)
	}
	return err
}

func runTreeTensor(r *runner, l *line) error {
	name, given := l.value("name")
	if given && name == "" {
		return refused("an empty name is the path here")
	}
	path, err := r.tree(l).AddTensor(name)
	if err == nil {
		r.expectText(l, "path", path)
	}
	return err
}

func runTreeBegin(r *runner, l *line) error {
	kind := parseName[ckpt.NodeKind](r, l.words[1])
	class, given := l.value("class")
	switch {
	case given && kind == ckpt.NodeRecord:
		return r.tree(l).BeginRecord(class)
	case given:
		return refused("only a record has a class")
	}
	return r.tree(l).Begin(kind)
}

func runTreeCount(r *runner, l *line) error {
	found, err := r.tree(l).Len()
	if err == nil && found != r.parseUnsigned(l.words[1]) {
		r.fail("expected %s nodes, found %d", l.words[1], found)
	}
	return err
}

func (r *runner) expectLink(l *line, key string, found uint64) {
	wanted, given := l.value(key)
	if given && (wanted == "-" && found != ckpt.NodeEnd || wanted != "-" && r.parseUnsigned(wanted) != found) {
		r.fail("expected %s=%s, found %d", key, wanted, int64(found))
	}
}

func runTreeNode(r *runner, l *line) error {
	node, err := r.tree(l).At(r.parseUnsigned(l.words[1]))
	if err != nil {
		return err
	}
	text, octets, truth := node.Text, "", 0
	if node.Kind == ckpt.NodeBytes {
		text, octets = "", node.Text
	} else if _, given := l.value("bytes"); given {
		r.fail("expected bytes, found %v", node.Kind)
	}
	if node.Bool {
		truth = 1
	}
	expectName(r, l, "kind", node.Kind)
	expectName(r, l, "key_kind", node.KeyKind)
	r.expectText(l, "key", node.Key)
	expectInt(r, l, "key_int", node.KeyInt)
	expectInt(r, l, "bool", truth)
	expectInt(r, l, "int", node.Int)
	r.expectFloat(l, "float", node.Float)
	r.expectText(l, "text", text)
	r.expectHex(l, "bytes", []byte(octets))
	expectUnsigned(r, l, "child_count", node.ChildCount)
	r.expectLink(l, "first_child", node.FirstChild)
	r.expectLink(l, "next_sibling", node.NextSibling)
	r.expectLink(l, "parent", node.Parent)
	return nil
}

func runTreeFind(r *runner, l *line) error {
	found, err := r.tree(l).Find(r.parseUnsigned(l.words[1]), l.words[2])
	if err == nil && found != r.parseUnsigned(l.words[3]) {
		r.fail("expected node %s, found %d", l.words[3], found)
	}
	return err
}

func runTreeFindInt(r *runner, l *line) error {
	found, err := r.tree(l).FindInt(r.parseUnsigned(l.words[1]), r.parseInt(l.words[2]))
	if err == nil && found != r.parseUnsigned(l.words[3]) {
		r.fail("expected node %s, found %d", l.words[3], found)
	}
	return err
}

func runTreeNative(r *runner, l *line) error {
	value, err := r.tree(l).Value()
	if err != nil {
		return err
	}
	made, err := ckpt.EncodeTree(value)
	return keep(r, l.words[1], made, err)
}
