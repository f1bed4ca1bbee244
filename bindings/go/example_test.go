package ckpt_test

import (
	"context"
	"errors"
	"fmt"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// One rank saves and loads one tensor. The store is in memory; a path makes it a directory.
func Example() {
	ctx := context.Background()
	store, err := ckpt.OpenStore("mem:example", nil)
	check(err)
	defer store.Close()
	session, err := ckpt.OpenSession(context.Background(), store, 0, 1, "", nil) // rank 0 of 1
	check(err)
	defer session.Close()

	save, err := ckpt.NewSave(session, "step-100", 100, nil)
	check(err)
	defer save.Close()
	check(ckpt.AddSlice(save, "w", ckpt.Shape(2, 2), []float32{1, 2, 3, 4}))
	check(save.Run(ctx)) // nil: durable, complete, committed

	reader, err := ckpt.OpenReader(store, "latest", nil)
	check(err)
	defer reader.Close()
	load, err := ckpt.NewLoad(reader, nil)
	check(err)
	defer load.Close()
	column := make([]float32, 2)
	check(ckpt.AddSlice(load, "w", ckpt.Shape(2, 2).Box([]int64{0, 1}, []int64{2, 1}), column))
	check(load.Run(ctx)) // nil: all there, all checked
	fmt.Println(column)
	// Output: [2 4]
}

// A save in the background: the memory may change again once the job is staged.
func ExampleSave_Start() {
	ctx := context.Background()
	store, err := ckpt.OpenStore("mem:example", nil)
	check(err)
	defer store.Close()
	session, err := ckpt.OpenSession(context.Background(), store, 0, 1, "", nil)
	check(err)
	defer session.Close()
	save, err := ckpt.NewSave(session, "step-100", 100, nil)
	check(err)
	defer save.Close()
	weights := []float32{1, 2, 3}
	check(ckpt.AddSlice(save, "w", ckpt.Shape(3), weights))

	job, err := save.Start(ctx)
	check(err)
	defer job.Close()
	<-job.Staged()
	weights[0] = 7 // training goes on
	check(job.Wait(ctx, ckpt.JobCommitted))
	fmt.Println(job.State())
	// Output: COMMITTED
}

// Every status is a sentinel, and an error has facts.
func ExampleError() {
	store, err := ckpt.OpenStore("mem:example", nil)
	check(err)
	defer store.Close()
	_, err = ckpt.OpenReader(store, "label:step-100", nil)
	var found *ckpt.Error
	if errors.Is(err, ckpt.ErrNotFound) && errors.As(err, &found) {
		fmt.Println(found.Status.Name(), found)
	}
	// Output: NOT_FOUND ckpt: NOT_FOUND: mem:example: the store is empty: no checkpoint was saved here yet
}
