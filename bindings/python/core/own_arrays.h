// The caller's own arrays that a load fills, added with few calls of Python.
#pragma once

#include "load.h"

namespace ckpt_py {

class OwnArrays {
 public:
  // `filled`: names of arrays and (False, False) by their layout, `used`: their ids, `names`: theirs in the checkpoint;
  // ckpt/loading.py has them, too.
  OwnArrays(nb::object load, bool convert, nb::dict filled, nb::set used, nb::set names);
  // Asks for tensor `name` into the array. False if that is for ckpt/loading.py: the array is none of numpy or torch,
  // or there is more to say of it than its memory, or its memory is filled already.
  bool fill(nb::handle name, nb::handle array);
  // Adds what was asked for to the load.
  void add();

 private:
  nb::object load_;
  const bool convert_;
  nb::dict filled_;
  nb::set used_, names_;
  nb::tuple no_marks_;
  PlainArrays plain_;
  Batch<void*> batch_;
  nb::list kept_;
};

void bind_own_arrays(nb::module_& m);

}  // namespace ckpt_py
