package conformance

import (
	"bytes"
	"io"
	"os"
)

var _ = list(
	command{"memory", 3, 0, runMemory},
	command{"memory.hex", 2, 0, runMemoryHex},
	command{"memory.part", 4, 0, runMemoryPart},
	command{"equal", 2, 0, runEqual},
	command{"differ", 2, 0, runDiffer},
	command{"free", 1, 0, func(r *runner, l *line) error { r.free(l.words[0]); return nil }},
	command{"flip", 2, 0, runFlip},
	command{"truncate", 2, 0, runTruncate},
	command{"delete", 1, 0, runDelete},
	command{"copy", 2, 0, runCopy},
)

// generate fills with the little-endian words of splitmix64.
func generate(out []byte, seed uint64) {
	for at := 0; at < len(out); at += 8 {
		seed += 0x9E3779B97F4A7C15
		z := seed
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		for i := 0; i < 8 && at+i < len(out); i++ {
			out[at+i] = byte(z >> (8 * i))
		}
	}
}

func runMemory(r *runner, l *line) error {
	made := &memory{make([]byte, r.parseUnsigned(l.words[1]))}
	if seed := r.parseUnsigned(l.words[2]); seed > 0 {
		generate(made.data, seed)
	}
	r.put(l.words[0], made)
	return nil
}

func runMemoryHex(r *runner, l *line) error {
	r.put(l.words[0], &memory{r.parseHex(l.words[1])})
	return nil
}

func runMemoryPart(r *runner, l *line) error {
	from := get[*memory](r, l.words[1]).data
	offset, size := r.parseUnsigned(l.words[2]), r.parseUnsigned(l.words[3])
	if offset > uint64(len(from)) || size > uint64(len(from))-offset {
		r.fail("expected %d bytes at %d, found %d in all", size, offset, len(from))
	}
	if l.words[0] == l.words[1] {
		r.fail("expected two memories, found one")
	}
	r.put(l.words[0], &memory{bytes.Clone(from[offset : offset+size])})
	return nil
}

func runEqual(r *runner, l *line) error {
	a, b := get[*memory](r, l.words[0]).data, get[*memory](r, l.words[1]).data
	if !bytes.Equal(a, b) {
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		r.fail("expected equal bytes, found sizes %d and %d, different from byte %d", len(a), len(b), at)
	}
	return nil
}

func runDiffer(r *runner, l *line) error {
	a, b := get[*memory](r, l.words[0]).data, get[*memory](r, l.words[1]).data
	if bytes.Equal(a, b) {
		r.fail("expected different bytes, found the same %d", len(a))
	}
	return nil
}

func runFlip(r *runner, l *line) error {
	file, err := os.OpenFile(r.path(l.words[0]), os.O_RDWR, 0)
	r.must(err)
	defer file.Close()
	offset := r.parseInt(l.words[1])
	if offset < 0 {
		info, err := file.Stat()
		r.must(err)
		offset += info.Size()
	}
	octet := make([]byte, 1)
	_, err = file.ReadAt(octet, offset)
	r.must(err)
	octet[0] ^= 1
	_, err = file.WriteAt(octet, offset)
	r.must(err)
	return nil
}

func runTruncate(r *runner, l *line) error {
	r.must(os.Truncate(r.path(l.words[0]), int64(r.parseUnsigned(l.words[1]))))
	return nil
}

func runDelete(r *runner, l *line) error {
	r.must(os.Remove(r.path(l.words[0])))
	return nil
}

func runCopy(r *runner, l *line) error {
	from, err := os.Open(r.path(l.words[0]))
	r.must(err)
	defer from.Close()
	to, err := os.Create(r.path(l.words[1]))
	r.must(err)
	_, err = io.Copy(to, from)
	r.must(err)
	r.must(to.Close())
	return nil
}
