package ckpt

import "testing"

func TestAnOptionIsANumberOfAnyType(t *testing.T) {
	type on bool
	for _, value := range []any{1, int64(1), uint8(1), true, on(true), "1"} {
		if number, given := (Options{"fresh": value}).number("fresh"); number != 1 || !given {
			t.Errorf("%T %v is %d, given: %t", value, value, number, given)
		}
	}
	for _, options := range []Options{nil, {"fresh": nil}, {"fresh": "yes"}, {"fresh": 1.5}} {
		if number, given := options.number("fresh"); given {
			t.Errorf("%v gives %d", options, number)
		}
	}
	if number, given := (Options{"fresh": false}).number("fresh"); number != 0 || !given {
		t.Errorf("false is %d, given: %t", number, given)
	}
}
