#include "sharing.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

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

uintptr_t end_of(const Memory& memory) { return address(memory) + memory.bytes; }

// From low to high addresses; of those that begin together first the longest, and one without gaps.
bool by_place(const Named* a, const Named* b) {
  const auto key = [](const Memory& memory) {
    return std::make_tuple(address(memory), ~memory.bytes, !memory.contiguous());
  };
  return key(*a->memory) < key(*b->memory);
}

// The dimensions of a tensor from the widest stride on.
std::vector<std::pair<uint64_t, uint64_t>> dimensions_of(const Memory& memory) {
  std::vector<std::pair<uint64_t, uint64_t>> out;  // stride in bytes, extent
  for (size_t i = 0; i < memory.shape.size(); i++)
    if (memory.shape[i] > 1)
      out.emplace_back(static_cast<uint64_t>(memory.strides[i]) * width(memory), memory.shape[i]);
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

// Whether it may have an element twice; not one that is spread over an axis (stride 0), which is saved as a whole.
bool may_repeat(const Memory& memory) {
  uint64_t reach = width(memory);
  bool repeats = false;
  const auto dimensions = dimensions_of(memory);
  for (auto each = dimensions.rbegin(); each != dimensions.rend(); ++each) {
    if (each->first == 0) return false;
    repeats |= each->first < reach;
    reach += (each->second - 1) * each->first;
  }
  return repeats;
}

// Elements that are neighbours in memory.
struct Run {
  uintptr_t start, end;
  size_t tensor;
};

void add_runs(const Memory& memory, size_t tensor, std::vector<Run>& out) {
  auto dimensions = dimensions_of(memory);
  uint64_t run = width(memory);
  for (; !dimensions.empty() && dimensions.back().first == run; dimensions.pop_back()) run *= dimensions.back().second;
  std::vector<uint64_t> at(dimensions.size(), 0);
  for (uintptr_t start = address(memory);;) {
    out.push_back({start, start + run, tensor});
    size_t i = dimensions.size();
    for (; i > 0 && ++at[i - 1] == dimensions[i - 1].second; i--) {
      start -= (dimensions[i - 1].second - 1) * dimensions[i - 1].first;
      at[i - 1] = 0;
    }
    if (i == 0) return;
    start += dimensions[i - 1].first;
  }
}

using Names = std::unordered_set<std::string>;

// Of tensors whose ranges meet one after the other: those with gaps that share elements with another or themselves.
void find_joined(const std::vector<const Named*>& cluster, Names& joined) {
  std::vector<Run> runs;
  for (size_t i = 0; i < cluster.size(); i++) add_runs(*cluster[i]->memory, i, runs);
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.start < b.start; });
  size_t furthest = 0;
  for (size_t i = 1; i < runs.size(); i++) {
    if (runs[i].start < runs[furthest].end)
      for (const size_t each : {i, furthest})
        if (const Named& tensor = *cluster[runs[each].tensor]; !tensor.memory->contiguous()) joined.insert(tensor.name);
    if (runs[i].end > runs[furthest].end) furthest = i;
  }
}

// The tensors with gaps that lie in no tensor without and have elements in common, which spans must take in. Costs
// nothing where the ranges of tensors with gaps meet no others.
Names joined_of(const std::vector<const Named*>& group) {
  Names joined;
  if (std::all_of(group.begin(), group.end(), [](const Named* each) { return each->memory->contiguous(); }))
    return joined;
  std::vector<const Named*> sorted = group, cluster;
  std::stable_sort(sorted.begin(), sorted.end(), by_place);
  for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    cluster.assign(1, sorted[begin]);
    uintptr_t furthest = end_of(*sorted[begin]->memory), filled = 0;  // the end of a tensor without gaps
    bool gaps = false;
    for (end = begin; end < sorted.size() && (end == begin || address(*sorted[end]->memory) < furthest); end++) {
      const Memory& memory = *sorted[end]->memory;
      if (end > begin) cluster.push_back(sorted[end]);
      furthest = std::max(furthest, end_of(memory));
      if (memory.contiguous())
        filled = std::max(filled, end_of(memory));
      else
        gaps |= end_of(memory) > filled;
    }
    if (gaps && (cluster.size() > 1 || may_repeat(*cluster[0]->memory))) find_joined(cluster, joined);
  }
  return joined;
}

// From low to high addresses. A span is called like the tensor that fills it, if one does.
std::vector<Span> spans_of(const std::vector<const Named*>& group) {
  const Names joined = joined_of(group);
  std::vector<const Named*> sorted;
  for (const Named* tensor : group)
    if (tensor->memory->contiguous() || joined.count(tensor->name)) sorted.push_back(tensor);
  std::stable_sort(sorted.begin(), sorted.end(), by_place);
  std::vector<Span> out;
  for (const Named* tensor : sorted) {
    const uintptr_t start = address(*tensor->memory), end = end_of(*tensor->memory);
    if (out.empty() || start >= out.back().end) {
      out.push_back({start, end, tensor->memory->contiguous() ? tensor->name : "", {tensor}});
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
    if (span.name == tensor->name || end_of(memory) > span.end || distance % width(memory)) continue;
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
