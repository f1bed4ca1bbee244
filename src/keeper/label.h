// What a checkpoint is called: a template such as "ep{epoch}-ba{batch:06d}". Immutable; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "keeper/schedule.h"

namespace ckpt::keeper {

class LabelTemplate {
 public:
  // `fixed`: variables that do not change. INVALID for a variable or a format that it does not know.
  static Result<LabelTemplate> parse(std::string_view text, std::map<std::string, std::string, std::less<>> fixed);
  // Whether each step has a label of its own.
  bool numbered() const;
  // INVALID if a counter was not told.
  Result<std::string> label(const Moment& now) const;
  // The label of step 0, where all counters are 0.
  std::string example() const;
  const std::string& text() const { return text_; }

 private:
  struct Field {
    std::string text;       // as it is, or the name of a variable
    bool variable = false;  // then, of a number:
    size_t width = 0;
    char fill = ' ';
    bool metric = false;  // a metric of that name
    int precision = -1;   // its digits behind the point
  };
  Status add_variable(std::string_view inside);
  Status add_metric(std::string_view name, std::string_view form);
  Result<std::string> value(const Field& field, const Moment& now) const;
  Status wrong(const std::string& why) const;

  std::string text_;
  std::map<std::string, std::string, std::less<>> fixed_;
  std::vector<Field> fields_;
};

}  // namespace ckpt::keeper
