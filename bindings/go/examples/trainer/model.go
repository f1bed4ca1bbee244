package main

import "math"

const inputs, hidden, batch = 8, 16, 32

// state is all that a step reads and changes: what a checkpoint must hold for a resumed run to be the same bit for bit.
type state struct {
	step     int64
	random   uint64 // the state of the data generator
	loss     float64
	weights  [][]float32 // of the layers: inputs x hidden, hidden
	momentum [][]float32
}

var shapes = [][]int64{{inputs, hidden}, {hidden}}

func newState() *state {
	s := &state{random: 7}
	for _, shape := range shapes {
		size := int64(1)
		for _, extent := range shape {
			size *= extent
		}
		s.weights = append(s.weights, make([]float32, size))
		s.momentum = append(s.momentum, make([]float32, size))
	}
	for _, layer := range s.weights {
		for i := range layer {
			layer[i] = float32(s.uniform()-0.5) / 2
		}
	}
	return s
}

// uniform returns the next number in [0, 1), by splitmix64.
func (s *state) uniform() float64 {
	s.random += 0x9E3779B97F4A7C15
	z := s.random
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return float64((z^z>>31)>>11) / (1 << 53)
}

// train makes one step of stochastic gradient descent with momentum: a small net learns the mean of its inputs'
// squares.
func (s *state) train() {
	gradients := [][]float32{make([]float32, inputs*hidden), make([]float32, hidden)}
	s.loss = 0
	for range batch {
		s.loss += s.example(gradients) / batch
	}
	const rate, decay = 0.05, 0.9
	for layer, gradient := range gradients {
		for i, g := range gradient {
			s.momentum[layer][i] = decay*s.momentum[layer][i] + g/batch
			s.weights[layer][i] -= rate * s.momentum[layer][i]
		}
	}
	s.step++
}

// example adds the gradients of one random example and returns its loss.
func (s *state) example(gradients [][]float32) float64 {
	var x [inputs]float32
	var wanted float32
	for i := range x {
		x[i] = float32(2*s.uniform() - 1)
		wanted += x[i] * x[i] / inputs
	}
	var active [hidden]float32
	var found float32
	for h := range active {
		var sum float32
		for i := range x {
			sum += float32(x[i] * s.weights[0][i*hidden+h])
		}
		active[h] = float32(math.Tanh(float64(sum)))
		found += float32(active[h] * active[h] * s.weights[1][h])
	}
	wrong := found - wanted
	for h, a := range active {
		gradients[1][h] += 2 * wrong * a * a
		back := 4 * wrong * s.weights[1][h] * a * (1 - a*a)
		for i := range x {
			gradients[0][i*hidden+h] += back * x[i]
		}
	}
	return float64(wrong) * float64(wrong)
}
