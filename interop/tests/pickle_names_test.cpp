#include "interop/src/pickle/names.h"

#include <gtest/gtest.h>

namespace ckpt::interop {
namespace {

TEST(PickleNames, WhatBuildsDataMayBeCalled) {
  for (const char* name : {"torch._utils _rebuild_tensor",
                           "torch._utils _rebuild_tensor_v2",
                           "torch._utils _rebuild_tensor_v3",
                           "torch._utils _rebuild_parameter",
                           "torch._utils _rebuild_parameter_with_state",
                           "torch._utils _rebuild_sparse_tensor",
                           "torch._utils _rebuild_sparse_csr_tensor",
                           "torch._utils _rebuild_qtensor",
                           "torch._utils _rebuild_nested_tensor",
                           "torch._utils _rebuild_wrapper_subclass",
                           "torch._utils _rebuild_meta_tensor_no_storage",
                           "torch._utils _rebuild_device_tensor_from_numpy",
                           "torch._utils _rebuild_device_tensor_from_cpu_tensor",
                           "torch._tensor _rebuild_from_type_v2",
                           "torch Size",
                           "torch device",
                           "torch.serialization _get_layout",
                           "torch.jit._pickle build_intlist",
                           "torch.jit._pickle restore_type_tag",
                           "__torch__.net my_module",
                           "numpy.core.multiarray _reconstruct",
                           "numpy._core.multiarray scalar",
                           "numpy.core.numeric _frombuffer",
                           "numpy dtype",
                           "numpy ndarray",
                           "numpy.random._pickle __randomstate_ctor",
                           "numpy.random.bit_generator __pyx_unpickle_SeedSequence",
                           "numpy.random.bit_generator __pyx_unpickle_SeedlessSeedSequence",
                           "numpy.random._bit_generator __pyx_unpickle_SeedSequence",
                           "datetime datetime",
                           "datetime timedelta",
                           "collections defaultdict",
                           "collections OrderedDict",
                           "argparse Namespace",
                           "pathlib PosixPath",
                           "decimal Decimal",
                           "fractions Fraction",
                           "uuid UUID",
                           "types SimpleNamespace",
                           "io BytesIO",
                           "builtins set",
                           "builtins complex",
                           "builtins ValueError"})
    EXPECT_EQ(rule_of(name), NameRule::kCall) << name;
}

TEST(PickleNames, WhatLooksLikeAClassMayBeCalled) {
  for (const char* name : {"__main__ Net", "my.models _Private", "my.models Outer.Inner", "my __Deep"})
    EXPECT_EQ(rule_of(name), NameRule::kCall) << name;
  for (const char* name : {"__main__ net", "my.models Outer.method", "my _private", "torch.nn.functional relu",
                           "torch float32", "torch._utils _import_dotted_name", "numpy frombuffer", "my 1", "my _"})
    EXPECT_EQ(rule_of(name), NameRule::kMention) << name;
}

TEST(PickleNames, FunctionsThatOnlyComputeMayBeMentioned) {
  for (const char* name : {"builtins len", "builtins print", "operator mul", "_operator mul"})
    EXPECT_EQ(rule_of(name), NameRule::kMention) << name;
  EXPECT_EQ(rule_of("functools partial"), NameRule::kCall);
}

TEST(PickleNames, ModulesThatDoThingsAreRefusedWithAllThatIsInThem) {
  constexpr std::string_view kNames[] = {"os system",
                                         "os.path join",
                                         "posix system",
                                         "nt system",
                                         "sys exit",
                                         "subprocess Popen",
                                         "builtins eval",
                                         "builtins exec",
                                         "builtins __import__",
                                         "builtins open",
                                         "builtins compile",
                                         "builtins setattr",
                                         "runpy run_path",
                                         "importlib import_module",
                                         "importlib.machinery SourceFileLoader",
                                         "imp load_source",
                                         "ctypes CDLL",
                                         "socket socket",
                                         "socket Socket",
                                         "shutil rmtree",
                                         "pty spawn",
                                         "multiprocessing Process",
                                         "threading Thread",
                                         "asyncio run",
                                         "webbrowser open",
                                         "code InteractiveInterpreter",
                                         "codeop Compile",
                                         "pickle loads",
                                         "pickle Unpickler",
                                         "_pickle loads",
                                         "marshal loads",
                                         "shelve DbfilenameShelf",
                                         "types FunctionType",
                                         "types CodeType",
                                         "inspect Signature",
                                         "operator attrgetter",
                                         "_operator methodcaller",
                                         "functools partialmethod",
                                         "itertools chain",
                                         "tempfile NamedTemporaryFile",
                                         "http.client HTTPConnection",
                                         "urllib.request urlopen",
                                         "smtplib SMTP",
                                         "ssl SSLContext",
                                         "platform popen",
                                         "pip main",
                                         "timeit Timer",
                                         "cProfile run",
                                         "pdb Pdb",
                                         "bdb Bdb",
                                         "doctest DocTest",
                                         "zipfile ZipFile",
                                         "tarfile TarFile",
                                         "sqlite3 Connection",
                                         "io FileIO",
                                         "logging.handlers SocketHandler",
                                         "cloudpickle.cloudpickle _make_function",
                                         "dill._dill _create_type"};
  for (std::string_view name : kNames) EXPECT_EQ(rule_of(name), NameRule::kRefused) << name;
}

TEST(PickleNames, WhatLoadsOrRunsFilesIsRefusedInTorchAndNumpyToo) {
  constexpr std::string_view kNames[] = {"torch load",
                                         "torch save",
                                         "torch.hub load",
                                         "torch.hub Model",
                                         "torch.serialization load",
                                         "torch.jit load",
                                         "torch.jit._script RecursiveScriptModule",
                                         "torch.storage _load_from_bytes",
                                         "torch.multiprocessing.reductions rebuild_tensor",
                                         "torch.ops load_library",
                                         "torch.utils.cpp_extension load",
                                         "numpy.testing Tester",
                                         "numpy load",
                                         "copyreg add_extension"};
  for (std::string_view name : kNames) EXPECT_EQ(rule_of(name), NameRule::kRefused) << name;
}

TEST(PickleNames, ModulesThatRunWhatTheyAreGivenAreRefused) {
  for (const char* name :
       {"concurrent.futures ProcessPoolExecutor", "ensurepip _run_pip", "idlelib.pyshell main",
        "logging.config dictConfig", "numpy.testing._private.utils runstring", "profile Profile.run", "pydoc pipepager",
        "signal signal", "site execsitecustomize", "torch.distributed.rpc rpc_sync", "torch.package PackageImporter",
        "torch.utils.collect_env run", "trace Trace.run", "unittest.mock patch", "venv create",
        "zipimport zipimporter"})
    EXPECT_EQ(rule_of(name), NameRule::kRefused) << name;
}

TEST(PickleNames, NamesThatBeginLikeThoseOfRefusedModulesAreOthers) {
  for (const char* name : {"osmium Reader", "sysid Model", "my.os Thing", "torch.hubert Model", "codebook Code"})
    EXPECT_EQ(rule_of(name), NameRule::kCall) << name;
}

TEST(PickleNames, ARefusedModuleIsNotReachedThroughAnother) {
  for (const char* name : {"torch os.system", "torch _os.system", "torch serialization.os.system", "torch hub.load",
                           "my subprocess.Popen", "builtins Foo.Bar", "my Foo.os.Popen"})
    EXPECT_EQ(rule_of(name), NameRule::kRefused) << name;
}

TEST(PickleNames, WhatPickleItselfUsesIsForTheMachine) {
  for (const char* name : {"builtins getattr", "builtins type", "copyreg _reconstructor", "copyreg __newobj__",
                           "copyreg __newobj_ex__", "_codecs encode"})
    EXPECT_EQ(rule_of(name), NameRule::kSpecial) << name;
}

TEST(PickleNames, PythonTwosNamesBecomePythonThrees) {
  EXPECT_EQ(full_name("__builtin__", "set"), "builtins set");
  EXPECT_EQ(full_name("__builtin__", "unicode"), "builtins str");
  EXPECT_EQ(full_name("__builtin__", "long"), "builtins int");
  EXPECT_EQ(full_name("copy_reg", "_reconstructor"), "copyreg _reconstructor");
  EXPECT_EQ(full_name("exceptions", "ValueError"), "builtins ValueError");
  EXPECT_EQ(full_name("UserDict", "IterableUserDict"), "collections UserDict");
  EXPECT_EQ(full_name("_io", "BytesIO"), "io BytesIO");
  EXPECT_EQ(full_name("torch", "device"), "torch device");
  for (const char* module : {"cPickle", "commands", "urllib2", "httplib", "thread", "Queue", "SocketServer", "popen2"})
    EXPECT_EQ(rule_of(full_name(module, "Anything")), NameRule::kRefused) << module;
  EXPECT_EQ(dotted("torch.nn Linear"), "torch.nn.Linear");
}

}  // namespace
}  // namespace ckpt::interop
