#include "sharing.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <unordered_map>

namespace nb = nanobind;

namespace ckpt_py {

namespace {

uintptr_t address(const Memory& memory) { return reinterpret_cast<uintptr_t>(memory.data); }
uint64_t width(const Memory& memory) { return static_cast<uint64_t>(ckpt_dtype_bits(memory.dtype)) / 8; }

struct SameLayout {
  size_t operator()(const Memory* memory) const { return std::hash<uintptr_t>()(address(*memory) >> 4); }
  bool operator()(const Memory* a, const Memory* b) const {
    return a->data == b->data && a->dtype == b->dtype && a->shape == b->shape && a->strides == b->strides;
  }
};

// From low to high addresses. A span is called like the tensor that fills it, if one does.
std::vector<Span> spans_of(const std::vector<const Named*>& group) {
  std::vector<const Named*> sorted;
  for (const Named* tensor : group)
    if (tensor->memory->contiguous()) sorted.push_back(tensor);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Named* a, const Named* b) {
    return std::make_pair(address(*a->memory), ~a->memory->bytes) <
           std::make_pair(address(*b->memory), ~b->memory->bytes);
  });
  std::vector<Span> out;
  for (const Named* tensor : sorted) {
    const uintptr_t start = address(*tensor->memory), end = start + tensor->memory->bytes;
    if (out.empty() || start >= out.back().end) {
      out.push_back({start, end, tensor->name, {tensor}});
      continue;
    }
    Span& last = out.back();
    if ((start - last.start) % width(*tensor->memory)) continue;  // it begins inside an element: saved by itself
    if (end > last.end) {
      last.end = end;
      last.name.clear();
    }
    last.members.push_back(tensor);
  }
  // A name of its own: the first of its members'. They lie in one vector, so the first has the lowest address there.
  for (Span& span : out)
    if (span.name.empty()) span.name = (*std::min_element(span.members.begin(), span.members.end()))->name + "~memory";
  return out;
}

// The tensors that lie in a span of another name.
void find_views(const std::vector<const Named*>& group, const std::vector<Span>& spans,
                std::unordered_map<std::string, size_t>& places, std::vector<Alias>& views) {
  for (const Named* tensor : group) {
    const Memory& memory = *tensor->memory;
    auto after = std::upper_bound(spans.begin(), spans.end(), address(memory),
                                  [](uintptr_t start, const Span& span) { return start < span.start; });
    if (after == spans.begin()) continue;
    const Span& span = *--after;
    const uint64_t distance = address(memory) - span.start;
    if (span.name == tensor->name || address(memory) + memory.bytes > span.end || distance % width(memory)) continue;
    places.emplace(tensor->name, views.size());
    views.push_back({tensor->name, span.name, &memory, static_cast<int64_t>(distance / width(memory))});
  }
}

}  // namespace

Sharing find_sharing(const std::vector<Named>& tensors) {
  Sharing out;
  std::unordered_map<const Memory*, const Named*, SameLayout, SameLayout> first;
  std::vector<std::pair<int32_t, std::vector<const Named*>>> groups;  // by dtype
  for (const Named& tensor : tensors) {
    const Memory& memory = *tensor.memory;
    if (memory.bytes == 0) continue;
    const auto [found, is_new] = first.emplace(&memory, &tensor);
    if (!is_new) {
      out.aliases.push_back({tensor.name, found->second->name, nullptr, 0});
    } else if (width(memory) > 0) {
      auto group = std::find_if(groups.begin(), groups.end(), [&](auto& each) { return each.first == memory.dtype; });
      if (group == groups.end()) group = groups.insert(group, {memory.dtype, {}});
      group->second.push_back(&tensor);
    }
  }
  std::unordered_map<std::string, size_t> places;
  std::vector<Alias> views;
  for (const auto& [dtype, group] : groups) {
    const std::vector<Span> spans = spans_of(group);
    find_views(group, spans, places, views);
    for (const Span& span : spans)
      if (std::none_of(span.members.begin(), span.members.end(), [&](auto* each) { return each->name == span.name; }))
        out.spans.push_back(span);
  }
  // An alias cannot have aliases, so what equals a view becomes that view of the whole, too.
  for (Alias& alias : out.aliases)
    if (const auto view = places.find(alias.target); view != places.end()) {
      std::string name = std::move(alias.name);
      alias = views[view->second];
      alias.name = std::move(name);
    }
  out.aliases.insert(out.aliases.end(), views.begin(), views.end());
  return out;
}

static nb::tuple found_in(nb::dict tensors) {
  std::vector<Named> named;
  for (const auto& [name, memory] : tensors) named.push_back({text(name, "name"), &nb::cast<const Memory&>(memory)});
  const Sharing found = find_sharing(named);
  nb::object module = nb::module_::import_("ckpt.sharing"), alias_of = module.attr("Alias");
  nb::list aliases, spans;
  for (const Alias& alias : found.aliases) {
    if (alias.layout)
      aliases.append(alias_of(alias.name, alias.target, nb::tuple(nb::cast(alias.layout->shape)),
                              nb::tuple(nb::cast(alias.layout->strides)), alias.offset));
    else
      aliases.append(alias_of(alias.name, alias.target));
  }
  for (const Span& span : found.spans) {
    nb::list members;
    for (const Named* member : span.members) members.append(tensors[member->name.c_str()]);
    spans.append(module.attr("Span")(span.start, span.end, span.name, members));
  }
  return nb::make_tuple(aliases, spans);
}

void bind_sharing(nb::module_& m) {
  m.def("find_aliases", &found_in, nb::arg("tensors"),
        nb::sig("def find_aliases(tensors: dict[str, Memory]) -> tuple[list[ckpt.sharing.Alias], "
                "list[ckpt.sharing.Span]]"),
        "The tensors that are saved as aliases of others, and what is saved in addition for them.");
}

}  // namespace ckpt_py
