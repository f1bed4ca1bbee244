// The sources of a model bank: what each is asked for, what it has, and which gives what. No state; any thread.
#ifndef CKPT_TORCH_RECIS_BANK_H
#define CKPT_TORCH_RECIS_BANK_H

#include <deque>
#include <set>

#include "parts.h"
#include "src/nodes.h"

namespace ckpt_torch {
namespace recis {

std::string column_of(const std::string& variable);  // "embedding" of "items@embedding"
// Whether a variable of this class is a table's: "items@id".
bool of_table(const std::string& variable, const std::string& kind);
// Whether `load` and `exclude` let it through.
bool wants(const Source& source, const std::string& variable, const std::string& kind);
// Of which class a column is.
std::string class_of_column(const std::string& column);
// For messages.
std::string told_of(const Source& source, size_t place);

// With a path such as STORE/ckpt_100 taken apart.
Source located(const Source& source);
// The id of the checkpoint that a source selects, or of a RecIS run the directory of its newest.
std::string find(const Source& source, const Settings& settings);

// A source that is open: a checkpoint, or other programs' files, whose tables are read where they lie.
struct Opened {
  // `told`: for messages; `found`: what find() has found.
  Opened(const Source& from, const std::string& told, const std::string& found, uint32_t rank,
         const Settings& settings);

  bool has(const std::string& name, const std::string& kind) const;
  // What it calls a variable of the model.
  std::string name(const std::string& variable) const;
  // Of table `ours` of the model the columns that it gives, "id" among them, and their variables in it.
  Names given_of(const std::string& ours) const;
  // Whether this is the ids of a table, which is emptied before they come.
  bool empties(const std::string& variable) const;
  // Where it has the table that these are of.
  const std::string& table(const Names& columns) const;
  std::vector<ckpt::ColumnInfo> columns_of(const std::string& table) const;
  const ckpt::FileTable& file_table(const std::string& table) const;

  [[noreturn]] void refuse(ckpt_status status, const std::string& what) const;
  // NOT_FOUND, or a warning where errors are ignored.
  void complain(const std::string& what) const;

  Source source;
  std::string told, id, where;  // `where` it is: STORE/ID, or a file
  ckpt::Store store{nullptr};
  ckpt::Reader reader{nullptr};
  std::optional<ckpt::File> file;
  std::vector<ckpt::FileTable> file_tables;
  std::string model, prefix;  // the place of the dict with the model's tensors, and what their keys begin with
  std::set<std::string> dense, columns;  // tensors of the model; variables of its tables
  Names tables;                          // where it has its tables
  Names places;                          // where it has what is neither the model's nor a table
  bool of_recis = false;                 // its parts are those of RecIS' own checkpoints
  uint64_t workers = 0;                  // whose io states it has; 0: not told
  Names given;                           // variables of the model that it gives, and their names in it

 private:
  void look_at(const ckpt::Node& root);
  void look_at_recis(const ckpt::Node& root);
  void look_at_model(const ckpt::Node& root, const std::set<std::string>& keys);
  void look_at_table(const std::string& name, const std::vector<ckpt::ColumnInfo>& all);
};

// Which source gives what that is not `claimed`: the last that has it. Only rows that join others leave room for
// earlier sources.
void plan(std::deque<Opened>& sources, const Names& variables, std::set<std::string> claimed);

// Leaves of a plan what is loaded again, in these places: all of those sources, and of the others what they give to the
// tables that those empty.
void leave(std::deque<Opened>& sources, const std::set<size_t>& again);

}  // namespace recis
}  // namespace ckpt_torch
#endif
