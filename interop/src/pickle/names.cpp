#include "interop/src/pickle/names.h"

#include <algorithm>
#include <iterator>

namespace ckpt::interop {

namespace {

// Functions and lower-case classes that build data, and nothing else.
constexpr std::string_view kCallable[] = {
    "argparse Namespace",
    "array _array_reconstructor",
    "array array",
    "builtins bool",
    "builtins bytearray",
    "builtins bytes",
    "builtins complex",
    "builtins dict",
    "builtins float",
    "builtins frozenset",
    "builtins int",
    "builtins list",
    "builtins object",
    "builtins range",
    "builtins set",
    "builtins slice",
    "builtins str",
    "builtins tuple",
    "collections defaultdict",
    "collections deque",
    "datetime date",
    "datetime datetime",
    "datetime time",
    "datetime timedelta",
    "datetime timezone",
    "functools partial",
    "io BytesIO",
    "io StringIO",
    "logging getLogger",
    "numpy dtype",
    "numpy ndarray",
    "numpy._core _DType_reconstruct",
    "numpy._core.multiarray _reconstruct",
    "numpy._core.multiarray scalar",
    "numpy._core.numeric _frombuffer",
    "numpy.core _DType_reconstruct",
    "numpy.core.multiarray _reconstruct",
    "numpy.core.multiarray scalar",
    "numpy.core.numeric _frombuffer",
    "numpy.ma.core _mareconstruct",
    "numpy.random __RandomState_ctor",
    "numpy.random._bit_generator __pyx_unpickle_SeedSequence",
    "numpy.random._bit_generator __pyx_unpickle_SeedlessSeedSequence",
    "numpy.random._pickle __bit_generator_ctor",
    "numpy.random._pickle __generator_ctor",
    "numpy.random._pickle __randomstate_ctor",
    "numpy.random.bit_generator __pyx_unpickle_SeedSequence",
    "numpy.random.bit_generator __pyx_unpickle_SeedlessSeedSequence",
    "re _compile",
    "torch device",
    "torch._tensor _rebuild_from_type",
    "torch._tensor _rebuild_from_type_v2",
    "torch._utils _rebuild_device_tensor_from_cpu_tensor",
    "torch._utils _rebuild_device_tensor_from_numpy",
    "torch._utils _rebuild_meta_tensor_no_storage",
    "torch._utils _rebuild_nested_tensor",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_parameter_with_state",
    "torch._utils _rebuild_qtensor",
    "torch._utils _rebuild_sparse_csr_tensor",
    "torch._utils _rebuild_sparse_tensor",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_wrapper_subclass",
    "torch._utils _rebuild_xla_tensor",
    "torch.jit._pickle build_boollist",
    "torch.jit._pickle build_doublelist",
    "torch.jit._pickle build_intlist",
    "torch.jit._pickle build_tensor_from_id",
    "torch.jit._pickle build_tensorlist",
    "torch.jit._pickle restore_type_tag",
    "torch.nested._internal.nested_tensor _rebuild_njt",
    "torch.serialization _get_layout",
    "torch.tensor _rebuild_from_type",
    "types GenericAlias",
    "types SimpleNamespace",
    "zoneinfo ZoneInfo._unpickle",
};

// What pickle itself uses to write values, classes in classes and enums.
constexpr std::string_view kSpecial[] = {
    "_codecs encode",     "builtins getattr",      "builtins type",
    "copyreg __newobj__", "copyreg __newobj_ex__", "copyreg _reconstructor",
};

// Functions of refused modules that compute a value of their arguments, and nothing else: an activation, a key to sort
// by, a default of a hyper parameter.
constexpr std::string_view kHarmless[] = {
    "builtins abs",        "builtins all",        "builtins any",     "builtins bin",     "builtins callable",
    "builtins chr",        "builtins divmod",     "builtins hash",    "builtins hex",     "builtins id",
    "builtins isinstance", "builtins issubclass", "builtins len",     "builtins max",     "builtins min",
    "builtins oct",        "builtins ord",        "builtins pow",     "builtins print",   "builtins repr",
    "builtins round",      "builtins sorted",     "builtins sum",     "operator add",     "operator and_",
    "operator eq",         "operator floordiv",   "operator ge",      "operator getitem", "operator gt",
    "operator iadd",       "operator le",         "operator lt",      "operator matmul",  "operator mod",
    "operator mul",        "operator ne",         "operator neg",     "operator not_",    "operator or_",
    "operator pow",        "operator sub",        "operator truediv", "operator xor",
};

// Modules, with all that is in them, and single functions. Underscores before the first part do not count.
constexpr std::string_view kRefused[] = {
    "aifc",
    "antigravity",
    "asyncio",
    "asyncore",
    "atexit",
    "bdb",
    "builtins",
    "bz2",
    "cProfile",
    "cffi",
    "cgi",
    "cloudpickle",
    "code",
    "codecs",
    "codeop",
    "commands",
    "compileall",
    "concurrent",
    "copyreg",
    "crypt",
    "ctypes",
    "curses",
    "dbm",
    "dill",
    "dis",
    "distutils",
    "doctest",
    "ensurepip",
    "faulthandler",
    "fcntl",
    "filecmp",
    "fileinput",
    "ftplib",
    "functools",
    "gc",
    "glob",
    "grp",
    "gzip",
    "http",
    "idlelib",
    "imaplib",
    "imp",
    "importlib",
    "inspect",
    "interpreters",
    "io",
    "itertools",
    "joblib",
    "lib2to3",
    "linecache",
    "logging.config",
    "logging.handlers",
    "lzma",
    "mailbox",
    "marshal",
    "mmap",
    "modulefinder",
    "msvcrt",
    "multiprocess",
    "multiprocessing",
    "nntplib",
    "nt",
    "ntpath",
    "numpy.ctypeslib",
    "numpy.distutils",
    "numpy.f2py",
    "numpy.load",
    "numpy.testing",
    "operator",
    "os",
    "pdb",
    "pickle",
    "pickletools",
    "pip",
    "pkg_resources",
    "pkgutil",
    "platform",
    "popen2",
    "poplib",
    "posix",
    "posixpath",
    "posixsubprocess",
    "profile",
    "pstats",
    "pty",
    "pwd",
    "py_compile",
    "pydoc",
    "queue",
    "readline",
    "resource",
    "runpy",
    "sched",
    "select",
    "selectors",
    "setuptools",
    "shelve",
    "shutil",
    "signal",
    "site",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "subprocess",
    "symtable",
    "sys",
    "sysconfig",
    "syslog",
    "tarfile",
    "telnetlib",
    "tempfile",
    "termios",
    "test",
    "thread",
    "threading",
    "timeit",
    "tkinter",
    "torch.classes",
    "torch.distributed.elastic",
    "torch.distributed.launch",
    "torch.distributed.launcher",
    "torch.distributed.rpc",
    "torch.distributed.run",
    "torch.hub",
    "torch.jit",
    "torch.load",
    "torch.multiprocessing",
    "torch.ops",
    "torch.package",
    "torch.save",
    "torch.serialization.load",
    "torch.serialization.save",
    "torch.storage._load_from_bytes",
    "torch.testing",
    "torch.utils.collect_env",
    "torch.utils.cpp_extension",
    "torch.utils.model_zoo",
    "trace",
    "tracemalloc",
    "tty",
    "turtle",
    "types",
    "unittest",
    "urllib",
    "venv",
    "webbrowser",
    "winreg",
    "wsgiref",
    "xmlrpc",
    "xxsubinterpreters",
    "zipapp",
    "zipfile",
    "zipimport",
};

struct Renamed {
  std::string_view from, to;
};
// Python 2 to Python 3, modules: what is data, and what would slip past kRefused. (Lib/_compat_pickle.py)
constexpr Renamed kModules[] = {
    {"Queue", "queue"},
    {"SocketServer", "socketserver"},
    {"StringIO", "io"},
    {"UserDict", "collections"},
    {"UserList", "collections"},
    {"UserString", "collections"},
    {"__builtin__", "builtins"},
    {"_abcoll", "collections.abc"},
    {"_io", "io"},
    {"anydbm", "dbm"},
    {"cPickle", "pickle"},
    {"cStringIO", "io"},
    {"copy_reg", "copyreg"},
    {"dbhash", "dbm.bsd"},
    {"dumbdbm", "dbm.dumb"},
    {"exceptions", "builtins"},
    {"httplib", "http.client"},
    {"urllib2", "urllib"},
    {"xmlrpclib", "xmlrpc.client"},
};
// And names, after the modules.
constexpr Renamed kNames[] = {
    {"builtins StandardError", "builtins Exception"},
    {"builtins basestring", "builtins str"},
    {"builtins long", "builtins int"},
    {"builtins unicode", "builtins str"},
    {"builtins xrange", "builtins range"},
    {"collections IterableUserDict", "collections UserDict"},
};

template <size_t n>
bool contains(const std::string_view (&sorted)[n], std::string_view text) {
  return std::binary_search(std::begin(sorted), std::end(sorted), text);
}

template <size_t n>
std::string_view renamed(const Renamed (&table)[n], std::string_view text) {
  for (const Renamed& row : table)
    if (row.from == text) return row.to;
  return text;
}

std::string_view without_underscores(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('_'), text.size()));
}

std::string_view module_of(std::string_view full_name) { return full_name.substr(0, full_name.find(' ')); }
std::string_view name_of(std::string_view full_name) { return full_name.substr(full_name.find(' ') + 1); }

// Whether "a.b.c" is in kRefused, or "a.b", or "a".
bool refused_path(std::string_view path) {
  path = without_underscores(path);
  for (size_t dot = path.find('.');; dot = path.find('.', dot + 1)) {
    if (contains(kRefused, path.substr(0, dot))) return true;
    if (dot == std::string_view::npos) return false;
  }
}

// "torch" "os.system": a module reached through another one that imports it.
bool reaches_through_refused(std::string_view name) {
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    if (contains(kRefused, without_underscores(name.substr(0, dot)))) return true;
    name.remove_prefix(dot + 1);
  }
  return false;
}

}  // namespace

std::string full_name(std::string_view module, std::string_view name) {
  std::string full(renamed(kModules, module));
  full += ' ';
  full += name;
  return std::string(renamed(kNames, full));
}

std::string dotted(std::string_view full_name) {
  std::string text(full_name);
  std::replace(text.begin(), text.end(), ' ', '.');
  return text;
}

bool looks_like_class(std::string_view full_name) {
  const std::string_view name = name_of(full_name);
  const size_t dot = name.rfind('.');  // npos + 1 is 0
  const std::string_view last = without_underscores(name.substr(dot + 1));
  return !last.empty() && last.front() >= 'A' && last.front() <= 'Z';
}

NameRule rule_of(std::string_view full_name) {
  static_assert(std::is_sorted(std::begin(kCallable), std::end(kCallable)));
  static_assert(std::is_sorted(std::begin(kSpecial), std::end(kSpecial)));
  static_assert(std::is_sorted(std::begin(kHarmless), std::end(kHarmless)));
  static_assert(std::is_sorted(std::begin(kRefused), std::end(kRefused)));
  if (contains(kCallable, full_name)) return NameRule::kCall;
  if (contains(kSpecial, full_name)) return NameRule::kSpecial;
  if (contains(kHarmless, full_name) || contains(kHarmless, without_underscores(full_name))) return NameRule::kMention;
  const bool is_class = looks_like_class(full_name);
  const std::string_view name = name_of(full_name);
  const bool exempt = module_of(full_name) == "builtins" && is_class && name.find('.') == std::string_view::npos;
  if (exempt) return NameRule::kCall;  // exceptions, Ellipsis
  if (refused_path(dotted(full_name)) || reaches_through_refused(name)) return NameRule::kRefused;
  return is_class || module_of(full_name).starts_with("__torch__") ? NameRule::kCall : NameRule::kMention;
}

}  // namespace ckpt::interop
