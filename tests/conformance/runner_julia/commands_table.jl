# Sparse tables: the rows of a rank, shares, and what saves, readers and loads say of them.

struct TableRows
    ids::Any
    settings::Vector{Pair{Symbol,Any}}  # of add_table!
    rows_per_block::Int
    columns::Vector{Pair{String,Any}}
    dtypes::Dict{String,Any}
end

id_type(dtype) = something(Ckpt.element_type(dtype), UInt8)

command("table.new") do call
    ids = collect(reinterpret(id_type(parse_dtype(call.words[2])), something(memory(call, 3), UInt8[])))
    settings, buckets, positions = Pair{Symbol,Any}[], key(call, "buckets"), key(call, "positions")
    isnothing(buckets) || push!(settings, :buckets => parse(Int, buckets))
    isnothing(positions) ||
        push!(settings, :positions => [Int(at) + 1 for at in reinterpret(UInt64, named(call, positions))])
    rows_per_block = parse(Int, key(call, "rows_per_block", "0"))
    keep!(call, 1, TableRows(ids, settings, rows_per_block, Pair{String,Any}[], Dict{String,Any}()))
end

# M as arrays whose last dimension counts rows, of unsigned integers as wide as the dtype.
command("table.column") do call
    table, name, dtype = object(call, 1), call.words[2], parse_dtype(call.words[3])
    extent = reverse(numbers(call.words[4]))
    elements = collect(reinterpret(Ckpt.bits_type(dtype), something(memory(call, 5), UInt8[])))
    width = 1
    foreach(size -> width *= size, extent)
    rows = width == 0 ? 0 : length(elements) ÷ width
    block = table.rows_per_block == 0 ? max(rows, 1) : table.rows_per_block
    slabs = Any[]
    for first in 0:block:rows-1
        last = min(first + block, rows)
        push!(slabs, reshape(elements[first*width+1:last*width], extent..., last - first))
    end
    isempty(slabs) && push!(slabs, reshape(elements, extent..., 0))
    push!(table.columns, name => (length(slabs) == 1 ? slabs[1] : [slab for slab in slabs]))
    table.dtypes[name] = dtype
end

command("save.table") do call
    table = object(call, 3)
    add_table!(object(call, 1), call.words[2], table.ids, table.columns...; dtypes = table.dtypes, table.settings...)
end

command(call -> String[table.name for table in Ckpt.tables(object(call, 1))], "reader.tables")
command(call -> record(Ckpt.table(object(call, 1), call.words[2])), "reader.table")
command(call -> record(Ckpt.columns(object(call, 1), call.words[2])[integer(call, 3)+1]), "reader.column")

command("share.open") do call
    buckets, ids = numbers(key(call, "buckets")), key(call, "ids")
    slice, mod = numbers(key(call, "slice")), numbers(key(call, "mod"))
    keep!(call, 1, Share(object(call, 2), call.words[3];
                         buckets = isnothing(buckets) ? nothing : (buckets[1]:buckets[2]-1),
                         slice = isnothing(slice) ? nothing : Tuple(slice),
                         mod = isnothing(mod) ? nothing : Tuple(mod),
                         ids = isnothing(ids) ? nothing : reinterpret(UInt64, named(call, ids)),
                         window_rows = parse(Int, key(call, "window", "0")), settings(call)...))
end

command("share.info") do call
    share = object(call, 1)
    return record(share; missing_count = length(share.missing_ids))
end

command(call -> [string(Ckpt.window_rows(object(call, 1), integer(call, 2) + 1))], "share.rows")
command(call -> String[string(id) for id in reinterpret(UInt64, object(call, 1).missing_ids)], "share.missing")

command("load.table") do call
    share, ids = object(call, 2), memory(call, 4)
    columns = map(call.words[5:end]) do word
        name, target = split_once(word, ':')
        name => named(call, target)
    end
    add_table!(object(call, 1), share, integer(call, 3) + 1,
               isnothing(ids) ? nothing : reinterpret(id_type(share.id_dtype), ids), columns...)
end
