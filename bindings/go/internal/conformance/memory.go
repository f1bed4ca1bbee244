package conformance

import (
	"bytes"
	"encoding/binary"
	"os"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner){
	"memory":       func(r *runner) { r.put(0, &memory{generated(r.unsigned(1), r.unsigned(2))}) },
	"memory.hex":   func(r *runner) { r.put(0, &memory{[]byte(r.words[1])}) },
	"memory.alloc": runMemoryAlloc,
	"memory.part":  runMemoryPart,
	"equal":        runEqual,
	"differ":       runDiffer,
	"free":         func(r *runner) { r.free(r.words[0]) },
	"flip":         runFlip,
	"truncate":     func(r *runner) { r.check(os.Truncate(r.words[0], r.int(1))) },
	"delete":       func(r *runner) { r.check(os.Remove(r.words[0])) },
	"copy":         runCopy,
})

func runMemoryAlloc(r *runner) {
	buffer := try(ckpt.NewBuffer(r.unsigned(1)))
	defer buffer.Close()
	r.put(0, &memory{bytes.Clone(buffer.Bytes())})
}

// generated returns the little-endian words of splitmix64; zeros for seed 0.
func generated(size, seed uint64) []byte {
	out := make([]byte, (size+7)/8*8)
	for at := 0; seed != 0 && at < len(out); at += 8 {
		seed += 0x9E3779B97F4A7C15
		z := seed
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		binary.LittleEndian.PutUint64(out[at:], z^z>>31)
	}
	return out[:size]
}

func runMemoryPart(r *runner) {
	from, offset, size := get[*memory](r, 1).data, r.unsigned(2), r.unsigned(3)
	if offset > uint64(len(from)) || size > uint64(len(from))-offset {
		r.fail("expected %d bytes at %d, found %d in all", size, offset, len(from))
	}
	r.put(0, &memory{bytes.Clone(from[offset : offset+size])})
}

func runEqual(r *runner) {
	a, b := get[*memory](r, 0).data, get[*memory](r, 1).data
	if !bytes.Equal(a, b) {
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		r.fail("expected equal bytes, found sizes %d and %d, different from byte %d", len(a), len(b), at)
	}
}

func runDiffer(r *runner) {
	if bytes.Equal(get[*memory](r, 0).data, get[*memory](r, 1).data) {
		r.fail("expected different bytes, found the same")
	}
}

func runFlip(r *runner) {
	file, err := os.OpenFile(r.words[0], os.O_RDWR, 0)
	r.check(err)
	defer file.Close()
	info, err := file.Stat()
	r.check(err)
	octet, at := make([]byte, 1), r.int(1)
	if at < 0 {
		at += info.Size()
	}
	_, err = file.ReadAt(octet, at)
	r.check(err)
	octet[0] ^= 1
	_, err = file.WriteAt(octet, at)
	r.check(err)
}

func runCopy(r *runner) {
	content, err := os.ReadFile(r.words[0])
	r.check(err)
	r.check(os.WriteFile(r.words[1], content, 0o644))
}
