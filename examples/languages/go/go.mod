module four

go 1.26

require github.com/ckpt-engine/ckpt/bindings/go v0.0.0

replace github.com/ckpt-engine/ckpt/bindings/go => ../../../bindings/go
