# The options of a call are its keywords: Save(session, "l"; compression = "lz4", threads = 4).

"""
An option that calls take as a keyword: `key`; `kind`, `:INT` or `:STR`; `min` and `max` of an INT; `fallback`, its
value if it is not set, as text; `choices` of a STR ("error|replace|keep", empty if any text will do); `used_by`, the
calls that take it, by the words that docstrings say ("Options: those used by `load`."); `help`, one sentence.
"""
OptionInfo

"All options that the library knows. A call uses those that concern it and ignores the others."
function options()
    return map(0:ckpt_option_count()-1) do index
        out = sized(ckpt_option_info)
        checked(err -> ckpt_option_at(index, out, err))
        OptionInfo(out[])
    end
end

# f(pointer) with the settings in a C object, or with null if there are none.
function with_options(f, settings)
    isempty(settings) && return f(Ptr{ckpt_options}(C_NULL))
    bag = made((out, err) -> ckpt_options_new(out, err), ckpt_options)
    try
        for (key, value) in pairs(settings)
            call_alone((pointer, err) -> set_option(pointer, string(key), value, err), bag)
        end
        return use(f, bag)
    finally
        shut(bag)
    end
end

set_option(bag, key, value::Integer, err) = ckpt_options_set_int(bag, key, Int64(value), err)
set_option(bag, key, value::Union{AbstractString,Symbol}, err) = ckpt_options_set_str(bag, key, string(value), err)
set_option(bag, key, value, err) =
    throw(ArgumentError("option $key: expected an integer, a Bool or text, found a $(typeof(value))"))
