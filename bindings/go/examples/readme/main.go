// Saves a model's weights and loads them again. Its argument is the folder for the checkpoints.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func main() {
	ctx := context.Background()
	weights := make([]float32, 128*64)
	for i := range weights {
		weights[i] = float32(i) / 2
	}

	store, err := ckpt.OpenStore(os.Args[1], nil)
	check(err)
	defer store.Close()

	session, err := ckpt.OpenSession(context.Background(), store, 0, 1, "", nil) // rank 0 of 1
	check(err)
	defer session.Close()
	save, err := ckpt.NewSave(session, "step-100", 100, nil)
	check(err)
	defer save.Close()
	check(ckpt.AddSlice(save, "w", ckpt.Shape(128, 64), weights))
	check(save.Run(ctx)) // nil: durable, complete, committed

	reader, err := ckpt.OpenReader(store, "latest", nil)
	check(err)
	defer reader.Close()
	load, err := ckpt.NewLoad(reader, nil)
	check(err)
	defer load.Close()
	loaded := make([]float32, len(weights))
	check(ckpt.AddSlice(load, "w", ckpt.Shape(128, 64), loaded))
	check(load.Run(ctx)) // nil: all there, all checked

	same := slices.Equal(weights, loaded)
	fmt.Println("the same weights:", same)
	if !same {
		os.Exit(1)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
