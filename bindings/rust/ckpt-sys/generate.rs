//! Writes the raw layer from api.json, which libckpt installs.
//!
//! For the crate `ckpt` it also writes macros: `each_status!(make! { head })` calls `make! { head { #[doc = "…"]
//! INVALID = CKPT_INVALID; … } }`, and `fields_of_ckpt_run_info!(make! { head })` calls `make! { head { #[doc = "…"]
//! token: u64; … } { #[doc = "…"] name; … } }`: plain numbers, then texts of fixed size. What a field means beyond its
//! number (an enum, a flag, -1 for none) is for the crate to say.

use std::collections::HashMap;

use tinyjson::JsonValue as Value;

pub fn generate(api: &Value) -> String {
    let mut out = String::new();
    for constant in list(api, "constants") {
        let (kind, value) = match number(constant, "value") {
            None => ("&core::ffi::CStr", format!("c{:?}", text(constant, "value"))),
            Some(value) if value > i32::MAX as u64 => ("u64", value.to_string()),
            Some(value) => ("i32", value.to_string()),
        };
        out += &format!("pub const {}: {kind} = {value};\n", text(constant, "name"));
    }
    out += "pub type ckpt_status = i32;\n";
    for value in list(api, "enums").iter().flat_map(|one| list(one, "values")) {
        out += &format!("pub const {}: i32 = {};\n", text(value, "name"), number(value, "value").unwrap());
    }
    for handle in list(api, "handles") {
        let name = text(handle, "name");
        out += &format!("#[repr(C)]\n#[derive(Debug)]\npub struct {name} {{\n    _private: [u8; 0],\n}}\n");
    }
    list(api, "structs").iter().for_each(|one| out += &structure(one));
    out += "unsafe extern \"C\" {\n";
    list(api, "functions").iter().for_each(|one| out += &function(one));
    let names: Vec<&str> = list(api, "functions").iter().map(|one| text(one, "name")).collect();
    out += &format!("}}\n#[doc(hidden)]\npub const FUNCTIONS: [&str; {}] = {names:?};\n", names.len());
    list(api, "enums").iter().for_each(|one| out += &each_value(one));
    list(api, "structs").iter().for_each(|one| out += &each_field(one));
    out + &safetensors_dtypes(list(api, "dtypes"))
}

fn get<'a>(of: &'a Value, key: &str) -> Option<&'a Value> {
    of.get::<HashMap<String, Value>>()?.get(key)
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    get(of, key).and_then(|value| value.get::<Vec<_>>()).unwrap_or_else(|| panic!("api.json: {key} is no list"))
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    get(of, key).and_then(|value| value.get::<String>()).unwrap_or_else(|| panic!("api.json: no text {key} in {of:?}"))
}

fn number(of: &Value, key: &str) -> Option<u64> {
    get(of, key).and_then(|value| value.get::<f64>()).map(|&value| value as u64)
    // UINT64_MAX stays that
}

/// `const char* const*` as `*const *const core::ffi::c_char`.
fn rust_type(c: &str) -> String {
    let pieces: Vec<&str> = c.split('*').collect();
    let base = match pieces[0].trim_start_matches("const ").trim() {
        "int32_t" => "i32",
        "uint32_t" => "u32",
        "int64_t" => "i64",
        "uint64_t" => "u64",
        "size_t" => "usize",
        "double" => "f64",
        "char" => "core::ffi::c_char",
        "void" => "core::ffi::c_void",
        other => other,
    };
    pieces[..pieces.len() - 1].iter().fold(base.to_owned(), |target, piece| {
        format!("*{} {target}", if piece.contains("const") { "const" } else { "mut" })
    })
}

fn structure(of: &Value) -> String {
    let name = text(of, "name");
    let mut out = format!("#[repr(C)]\n#[derive(Debug, Copy, Clone)]\npub struct {name} {{\n");
    for field in list(of, "fields") {
        let kind = rust_type(text(field, "type"));
        let kind = number(field, "count").map_or(kind.clone(), |count| format!("[{kind}; {count}]"));
        out += &format!("    pub {}: {kind},\n", text(field, "name"));
    }
    out += &format!("}}\nconst _: () = assert!(size_of::<{name}>() == {});\n", number(of, "size").unwrap());
    out += &format!("impl Default for {name} {{\n    fn default() -> Self {{\n");
    out + "        unsafe { core::mem::zeroed() } // numbers and pointers\n    }\n}\n"
}

fn function(of: &Value) -> String {
    let arguments: Vec<String> = list(of, "arguments")
        .iter()
        .map(|one| format!("r#{}: {}", text(one, "name"), rust_type(text(one, "type"))))
        .collect();
    let returns = match text(of, "returns") {
        "void" => String::new(),
        other => format!(" -> {}", rust_type(other)),
    };
    format!("    pub fn {}({}){returns};\n", text(of, "name"), arguments.join(", "))
}

/// A sentence for rustdoc: of the comment in the header, else of the name.
fn doc(of: &Value) -> String {
    let said = match (text(of, "text"), text(of, "name")) {
        ("", constant) if constant.starts_with("CKPT_") => format!("`{constant}`"),
        ("", field) => format!("the {}", field.replace('_', " ")),
        (said, _) => said.replace('[', "\\[").replace('<', "\\<"),
    };
    format!("#[doc = {:?}]", said[..1].to_uppercase() + &said[1..] + ".")
}

fn macro_of(name: &str, lists: &str) -> String {
    format!(
        "#[doc(hidden)]\n#[macro_export]\nmacro_rules! {name} {{\n    ($then:ident! {{ $($head:tt)* }}) => {{\n        \
         $then! {{ $($head)* {lists} }}\n    }};\n}}\n"
    )
}

fn each_value(of: &Value) -> String {
    let prefix = text(of, "prefix");
    let values: Vec<String> = list(of, "values")
        .iter()
        .map(|one| format!("{} {} = {};", doc(one), text(one, "name").trim_start_matches(prefix), text(one, "name")))
        .collect();
    macro_of(&format!("each_{}", text(of, "name")), &format!("{{ {} }}", values.join(" ")))
}

/// Each dtype that safetensors has: `BF16 = BF16;`
fn safetensors_dtypes(all: &[Value]) -> String {
    let pairs: Vec<String> = all
        .iter()
        .filter(|one| get(one, "safetensors").is_some())
        .map(|one| format!("{} = {};", text(one, "name"), text(one, "safetensors")))
        .collect();
    macro_of("each_safetensors_dtype", &pairs.join(" "))
}

fn each_field(of: &Value) -> String {
    let (mut numbers, mut texts) = (String::new(), String::new());
    for field in list(of, "fields") {
        let (name, kind) = (text(field, "name"), text(field, "type"));
        let special = ["enum", "bool", "none"].iter().any(|key| get(field, key).is_some());
        if kind == "char" {
            texts += &format!("{} {name};", doc(field));
        } else if !special
            && get(field, "count").is_none()
            && !kind.contains('*')
            && !["struct_size", "reserved", "ndim"].contains(&name)
        {
            numbers += &format!("{} {name}: {};", doc(field), rust_type(kind));
        }
    }
    macro_of(&format!("fields_of_{}", text(of, "name")), &format!("{{ {numbers} }} {{ {texts} }}"))
}
