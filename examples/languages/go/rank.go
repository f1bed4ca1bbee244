// One rank of a save by ranks in four languages: this one in Go. What is saved: README.md.
//
// Usage: CKPT_SESSION=... rank_go STORE RANK WORLD
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/ckpt-engine/ckpt/bindings/go"
)

const (
	rows, columns           = 96, 32
	tableRows, tableColumns = 7, 12
)

// share is this rank's range [first, end) of `count` items.
func share(count, rank, world int64) (first, end int64) {
	return count * rank / world, count * (rank + 1) / world
}

// values are the elements [first, end) of a formula.
func values[T any](first, end int64, at func(i int64) T) []T {
	made := make([]T, 0, end-first)
	for i := first; i < end; i++ {
		made = append(made, at(i))
	}
	return made
}

func addTensors(save *ckpt.Save, rank, world int64) error {
	embedding := values(0, 65536*64, func(i int64) float32 { return float32(i)/2 - 7 })
	if err := ckpt.AddSlice(save, "embedding.weight", ckpt.Shape(65536, 64), embedding); err != nil {
		return err
	}
	// A variable: Go would multiply with an exact constant, unlike the other languages.
	tenth := 0.1
	head := values(0, 10, func(i int64) float64 { return float64(i) * tenth })
	if err := ckpt.AddSlice(save, "head.bias", ckpt.Shape(10), head); err != nil {
		return err
	}
	layer := ckpt.Shape(rows, columns)
	first, end := share(rows, rank, world)
	weight := values(first*columns, end*columns, func(i int64) float32 { return float32(i) / 4 })
	box := layer.Box([]int64{first, 0}, []int64{end - first, columns})
	if err := ckpt.AddSlice(save, "layer.weight", box, weight); err != nil {
		return err
	}
	first, end = share(rows*columns, rank, world)
	momentum := values(first, end, func(i int64) float32 { return 1 - float32(i)/8 })
	if err := ckpt.AddSlice(save, "layer.weight.momentum", layer.Flat(first, end-first), momentum); err != nil {
		return err
	}
	left, right := share(tableColumns, rank, world)
	var table []uint8
	for row := range int64(tableRows) {
		for column := left; column < right; column++ {
			table = append(table, uint8(row*tableColumns+column))
		}
	}
	box = ckpt.Shape(tableRows, tableColumns).Box([]int64{0, left}, []int64{tableRows, right - left})
	return ckpt.AddSlice(save, "table", box, table)
}

// addState adds the state tree, which only rank 0 saves: the tensors by name, and the trainer's numbers.
func addState(save *ckpt.Save) error {
	model := new(ckpt.Dict)
	for _, name := range []string{"embedding.weight", "head.bias", "layer.weight", "table"} {
		model.Set(name, ckpt.TensorRef{Name: name})
	}
	tree, err := ckpt.EncodeTree(new(ckpt.Dict).
		Set("model", model).
		Set("momentum", ckpt.TensorRef{Name: "layer.weight.momentum"}).
		Set("epoch", 3).
		Set("lr", 0.001).
		Set("betas", ckpt.Tuple{0.9, 0.999}).
		SetInt(7, "seven"))
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := save.AddTree("", tree); err != nil {
		return err
	}
	return save.SetAttr("trainer", "four languages")
}

func run(place string, rank, world int64) error {
	store, err := ckpt.OpenStore(place, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	options := ckpt.Options{"timeout_ms": 60000}
	session, err := ckpt.OpenSession(context.Background(), store, uint32(rank), uint32(world), os.Getenv("CKPT_SESSION"),
		ckpt.Options{"timeout_ms": 60000, "large_tensor_bytes": 1 << 20})
	if err != nil {
		return err
	}
	defer session.Close()
	if rank == 0 {
		fmt.Println(session.String()) // the launcher passes it to the others
	}
	save, err := ckpt.NewSave(session, "step-3", 3, options)
	if err != nil {
		return err
	}
	defer save.Close()
	if err := addTensors(save, rank, world); err != nil {
		return err
	}
	if err := save.AddObject("rng", "text/plain", ckpt.PerRank, []byte("Go")); err != nil {
		return err
	}
	if rank == 0 {
		if err := addState(save); err != nil {
			return err
		}
	}
	if err := save.Run(context.Background()); err != nil {
		return err
	}
	fmt.Printf("rank %d (Go): saved %s\n", rank, save.ID())
	return nil
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: rank_go STORE RANK WORLD")
		os.Exit(2)
	}
	rank, _ := strconv.ParseInt(os.Args[2], 10, 32)
	world, _ := strconv.ParseInt(os.Args[3], 10, 32)
	if err := run(os.Args[1], rank, world); err != nil {
		fmt.Fprintln(os.Stderr, "rank_go:", err)
		os.Exit(1)
	}
}
