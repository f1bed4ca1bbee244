package ckpt_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// readBesideAddress returns the places where a statement passes the address of a variable and also reads the variable.
// Go does not define the order: fail(C.call(&cerr), cerr) may pass the value of cerr from before the call.
func readBesideAddress(files *token.FileSet, file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch node.(type) {
		case *ast.ReturnStmt, *ast.AssignStmt, *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt, *ast.SendStmt:
			given, read := variables(node)
			for name := range given {
				if read[name] {
					found = append(found, files.Position(node.Pos()).String()+": "+name)
				}
			}
		}
		return true
	})
	return found
}

// variables returns the variables of a statement whose addresses are taken, and those that are read or written.
func variables(statement ast.Node) (given, read map[string]bool) {
	given, read = map[string]bool{}, map[string]bool{}
	var look func(node ast.Node) bool
	look = func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit: // its statements are checked on their own
			return false
		case *ast.SelectorExpr: // of a.b only a is a variable
			ast.Inspect(n.X, look)
			return false
		case *ast.KeyValueExpr: // of a struct: the key is a field
			ast.Inspect(n.Value, look)
			return false
		case *ast.UnaryExpr:
			if name, isName := n.X.(*ast.Ident); isName && n.Op == token.AND {
				given[name.Name] = true
				return false
			}
		case *ast.Ident:
			read[n.Name] = true
		}
		return true
	}
	ast.Inspect(statement, look)
	return given, read
}

func TestNoStatementReadsWhatACallInItFills(t *testing.T) {
	files := token.NewFileSet()
	count := 0
	ok(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		count++
		for _, place := range readBesideAddress(files, need[*ast.File](t)(parser.ParseFile(files, path, nil, 0))) {
			t.Errorf("%s is read in the statement that gives its address away", place)
		}
		return nil
	}))
	if count < 20 {
		t.Errorf("%d files: where are the others?", count)
	}
}

func TestTheGuardSeesWhatItForbids(t *testing.T) {
	for body, wanted := range map[string]int{
		"return fail(C.x(a, &e), e)":                           1,
		"return list, fail2(C.x(&list))":                       1,
		"list, err = get(&list)":                               1,
		"use(C.x(&e), e.text)":                                 1,
		"run(func() { use(C.x(&e), e) })":                      1,
		"status := C.x(a, &e); return fail(status, e)":         0,
		"if status := C.x(&e); status != 0 { return e }":       0,
		"call(func() int { return C.x(&e) }, e)":               0,
		"return C.x(&a, &b)":                                   0,
		"for i := range C.x(&e) { if e := f(i); e { use(e) }}": 0,
	} {
		files := token.NewFileSet()
		file := need[*ast.File](t)(parser.ParseFile(files, "x.go", "package x\nfunc f() {"+body+"}", 0))
		if found := readBesideAddress(files, file); len(found) != wanted {
			t.Errorf("%s: found %v", body, found)
		}
	}
}
