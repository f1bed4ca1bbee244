module ckpt.example/reader

go 1.26

require (
	github.com/pierrec/lz4/v4 v4.1.22
	github.com/zeebo/xxh3 v1.0.2
)

require github.com/klauspost/cpuid/v2 v2.0.9 // indirect
