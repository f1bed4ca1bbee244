package ckpt

import "testing"

func TestAnOptionIsANumberOfAnyType(t *testing.T) {
	type on bool
	for _, value := range []any{1, int64(1), uint8(1), true, on(true), "1"} {
		if number, given := (Options{"ranks_agree": value}).number("ranks_agree"); number != 1 || !given {
			t.Errorf("%T %v is %d, given: %t", value, value, number, given)
		}
	}
	for _, options := range []Options{nil, {"ranks_agree": nil}, {"ranks_agree": "yes"}, {"ranks_agree": 1.5}} {
		if number, given := options.number("ranks_agree"); given {
			t.Errorf("%v gives %d", options, number)
		}
	}
	if number, given := (Options{"ranks_agree": false}).number("ranks_agree"); number != 0 || !given {
		t.Errorf("false is %d, given: %t", number, given)
	}
}
