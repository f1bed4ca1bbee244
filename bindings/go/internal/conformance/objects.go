package conformance

import (
	"bytes"
	"io"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

// memory is the memory of a scenario: bytes that tensors are saved from and loaded into.
type memory struct{ data []byte }

// object is a named thing of a scenario.
type object struct {
	value any
	owner string // for the tree of a file, that file; else ""
}

// put names the value as a word of the command says, and frees what had the name before.
func (r *runner) put(word int, value any) { r.putOwned(word, value, "") }

func (r *runner) putOwned(word int, value any, owner string) {
	if _, known := r.objects[r.words[word]]; known {
		r.free(r.words[word])
	}
	r.objects[r.words[word]] = object{value, owner}
}

// putCopy puts the bytes of a view, which it closes.
func (r *runner) putCopy(word int, view *ckpt.MappedTensor) {
	defer view.Close()
	r.put(word, &memory{bytes.Clone(view.Bytes())})
}

// get returns the object that a word of the command names; it must be of type T.
func get[T any](r *runner, word int) T { return getNamed[T](r, r.words[word]) }

func getNamed[T any](r *runner, name string) T {
	value, right := r.objects[name].value.(T)
	if !right {
		r.fail("expected %T %s, found %T", value, name, r.objects[name].value)
	}
	return value
}

// bytes returns the bytes of the memory that this word names; nil for an empty word.
func (r *runner) bytes(word int) []byte {
	if r.words[word] == "" {
		return nil
	}
	return get[*memory](r, word).data
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
	// A scenario that frees a job wants its end; closing the job of a save does not end it.
	if job, is := gone.value.(*ckpt.Job); is {
		job.Cancel()
		<-job.Done()
	}
	if closer, closes := gone.value.(io.Closer); closes {
		r.check(closer.Close())
		r.check(closer.Close()) // again does nothing
	}
}

func (r *runner) freeAll() {
	for name := range r.objects {
		if _, left := r.objects[name]; left {
			r.free(name)
		}
	}
}
