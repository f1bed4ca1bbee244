module github.com/ckpt-engine/ckpt/bindings/go

go 1.26
