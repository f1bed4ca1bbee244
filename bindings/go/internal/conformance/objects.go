package conformance

import "io"

// memory is what a scenario calls so: bytes that tensors are saved from and loaded into.
type memory struct{ data []byte }

// object is a named thing of a scenario.
type object struct {
	value any
	owner string // the file that a tree is freed with; else ""
}

func (r *runner) put(name string, value any) { r.putOwned(name, value, "") }

// putOwned frees what had the name before.
func (r *runner) putOwned(name string, value any, owner string) {
	if _, known := r.objects[name]; known {
		r.free(name)
	}
	r.objects[name] = object{value, owner}
}

// get is the object of a name, which must be of type T.
func get[T any](r *runner, name string) T {
	found, known := r.objects[name]
	value, right := found.value.(T)
	if !known {
		r.fail("expected %T %s, found none", value, name)
	}
	if !right {
		r.fail("expected %T %s, found %T", value, name, found.value)
	}
	return value
}

func (r *runner) free(name string) {
	gone, known := r.objects[name]
	if !known {
		r.fail("expected an object %s, found none", name)
	}
	delete(r.objects, name)
	for other, borrowed := range r.objects {
		if borrowed.owner == name {
			r.free(other)
		}
	}
	if closer, closes := gone.value.(io.Closer); closes {
		r.must(closer.Close())
		r.must(closer.Close()) // again does nothing
	}
}

func (r *runner) freeAll() {
	for name := range r.objects {
		if _, left := r.objects[name]; left {
			r.free(name)
		}
	}
}
