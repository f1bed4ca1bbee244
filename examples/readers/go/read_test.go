package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const golden = "../../../tests/golden/"

var rounds = flag.Int("rounds", 1, "of random changes")

func dirs(t *testing.T, pattern string) []string {
	found, err := filepath.Glob(golden + pattern)
	if err != nil || len(found) == 0 {
		t.Fatal("no golden checkpoints", pattern, err)
	}
	return slices.DeleteFunc(found, func(d string) bool { return strings.HasSuffix(d, ".json") })
}

func verify(dir string) (out []byte, err error) {
	err = guard(func() {
		var b bytes.Buffer
		dump(&b, openCheckpoint(dir).describe())
		out = b.Bytes()
	})
	return out, err
}

func status(err error) string {
	var f *Fault
	if errors.As(err, &f) {
		return f.Status
	}
	return fmt.Sprint(err)
}

func parse(t *testing.T, b []byte) (v map[string]any) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestGolden(t *testing.T) {
	for _, dir := range dirs(t, "r1/*") {
		out, err := verify(dir)
		if err != nil {
			t.Error(dir, err)
			continue
		}
		text, err := os.ReadFile(dir + ".json")
		if err != nil {
			t.Fatal(err)
		}
		found, want := parse(t, out), parse(t, text)
		delete(want, "trees")
		if !reflect.DeepEqual(found, want) {
			t.Errorf("%s: found\n%s", dir, out)
		}
	}
}

func TestBad(t *testing.T) {
	for _, dir := range dirs(t, "bad/*") {
		want, _, _ := strings.Cut(filepath.Base(dir), "-")
		if _, err := verify(dir); status(err) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// A checkpoint as bytes of its files.
type files map[string][]byte

func load(t *testing.T, dir string) files {
	f := files{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if f[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f files) store(t *testing.T, dir string) {
	for name, b := range f {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// A flipped bit anywhere is an error.
func TestFlips(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for _, golden := range dirs(t, "r1/*") {
		f, dir := load(t, golden), t.TempDir()
		f.store(t, dir)
		for name, b := range f {
			for range 2 * *rounds {
				i, bit := random.Intn(len(b)), byte(1)<<random.Intn(8)
				if random.Intn(2) == 0 {
					i = len(b) - 1 - i/8
				}
				b[i] ^= bit
				files{name: b}.store(t, dir)
				if _, err := verify(dir); err == nil {
					t.Errorf("%s %s: bit %d of byte %d", golden, name, bit, i)
				}
				b[i] ^= bit
			}
			files{name: b}.store(t, dir)
		}
	}
}

// reseal corrects the digests of changed pages in the root. It returns the digest of the root before and now.
func reseal(before, now []byte, root uint64) (old, sum Digest) {
	at := uint64(len(before)) - root
	var x Root
	flat(before[at:], "CKPR", "").fill(&x)
	for _, r := range append(x.Pages, x.PartPages...) {
		replace(now[at:], r.Digest, hash128(now[r.Offset:r.Offset+uint64(r.Size)]))
	}
	return hash128(before[at:]), hash128(now[at:])
}

func replace(b []byte, old, sum Digest) {
	if i := bytes.Index(b, old.bytes()); i >= 0 {
		copy(b[i:], sum.bytes())
	}
}

// Wrong bytes with right digests never panic, and are rarely sound.
func TestHostile(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	count := map[string]int{}
	for _, golden := range dirs(t, "r1/*") {
		f, dir := load(t, golden), t.TempDir()
		c := openCheckpoint(golden)
		f.store(t, dir)
		m := f["MANIFEST"]
		end := len(m) - trailerSize
		size, root := le.Uint64(m[end:]), le.Uint64(m[end+8:])
		for range 4 * *rounds {
			g := files{"MANIFEST": bytes.Clone(m)}
			now := g["MANIFEST"]
			change := func(b []byte) {
				for range 1 + random.Intn(2) {
					b[random.Intn(len(b))] = []byte{0, 1, 2, 3, 128, 255, byte(random.Intn(256))}[random.Intn(7)]
				}
			}
			if p := c.parts[random.Intn(len(c.parts))]; random.Intn(2) == 0 {
				g[p.where] = bytes.Clone(f[p.where])
				b := g[p.where]
				index := b[p.rec.IndexOffset : p.rec.IndexOffset+p.rec.IndexSize]
				change(index)
				old, sum := reseal(f[p.where][p.rec.IndexOffset:][:len(index)], index, uint64(p.rec.RootSize))
				tail := b[len(b)-72:]
				replace(tail, old, sum)
				le.PutUint64(tail[64:], sum64(tail[:64]))
				copy(now[align(size, 64)+p.rec.CopyOffset:], index)
				replace(now[:size], old, sum)
			} else {
				change(now[:size])
			}
			_, sum := reseal(m[:size], now[:size], root)
			copy(now[end+32:], sum.bytes())
			le.PutUint64(now[end+80:], sum64(now[end:end+80]))
			g.store(t, dir)
			_, err := verify(dir)
			count[strings.SplitN(fmt.Sprint(err), ":", 2)[0]]++
			f.store(t, dir)
		}
	}
	t.Log(count)
}
