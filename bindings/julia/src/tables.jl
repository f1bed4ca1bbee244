# Sparse tables: rows by 64-bit id, saved by the ranks that have them, loaded by any other number of ranks.

"""
    add_table!(save, name, ids, columns...; buckets = 65536, positions, dtypes, device = (:CPU, 0), stream = 0,
               changed = nothing, removed = [])

Adds this rank's rows of sparse table `name`: `ids`, a vector of Int64 or UInt64 that differ, and columns such as
`"embedding" => matrix`. The last dimension of a column's array counts rows, so a row of a matrix of the table is a
column of Julia's matrix; its shape is the rest of the size, reversed. The memory is in one piece, and not copied: it is
held as that of tensors. All ranks give the table the same columns, element types, shapes and buckets (MISMATCH); a rank
without rows may leave it out.

* A column may be a vector of such arrays, as a hash table has it in slabs: all but the last have equally many rows
* `positions`: where each row lies, from 1, in the slabs of each column taken together (a copy of it is made)
* `dtypes`: of columns whose Julia type does not say it: `dtypes = Dict("embedding" => :bf16)` for an array of UInt16
* `changed`, numbers of rows from 1, and `removed`, ids that are gone: what changed since this session's last save of
  the table on this rank, whether that one succeeded or not. With option `incremental` a save writes only that, where it
  can; all rows are given nevertheless. `changed = :digests`: the engine finds out what changed
* `device`: where the memory of the columns is, and `stream`, behind whose work it is copied, as for tensors

Throws INVALID, EXISTS (the name was added already); ArgumentError and DimensionMismatch if the memory does not fit. An
id that is there twice is MISMATCH when the save runs, before it writes; one that two ranks have is found by loads and
by [`verify`](@ref).
"""
function add_table!(save::Save, name::AbstractString, ids::AbstractVector, columns::Pair...;
                    buckets = CKPT_TABLE_BUCKETS, positions = nothing, dtypes = Dict{String,Any}(),
                    device = (:CPU, 0), stream = 0, changed = nothing, removed = UInt64[])
    check_ids(ids)
    rows = changed isa Union{Nothing,Symbol} ? UInt64[] : UInt64[row - 1 for row in changed]
    gone = isnothing(changed) ? UInt64[] : UInt64[id % UInt64 for id in removed]
    changed isa Symbol && changed !== :digests && throw(ArgumentError("changed = $(repr(changed)), expected :digests"))
    flags = isnothing(changed) ? 0 : changed isa Symbol ? CKPT_TABLE_DIGESTS : CKPT_TABLE_CHANGES
    kind, number = number_of(DEVICES, device[1]), device[2]
    places = isnothing(positions) ? nothing : UInt64[at - 1 for at in positions]
    isnothing(places) || length(places) == length(ids) ||
        throw(DimensionMismatch("$(length(places)) positions for $(length(ids)) ids"))
    slabs = map(column -> slabs_of(column.second), collect(columns))
    descs = ckpt_column_desc[column_desc(column.first, arrays, dtypes) for (column, arrays) in zip(columns, slabs)]
    count = isempty(slabs) ? 0 : length(slabs[1])
    all(arrays -> length(arrays) == count, slabs) || throw(DimensionMismatch("columns have different numbers of slabs"))
    rows_per_block = count > 1 ? last(size(slabs[1][1])) : 0
    all(arrays -> count < 2 || last(size(arrays[1])) == rows_per_block, slabs) ||
        throw(DimensionMismatch("slabs of different columns have different numbers of rows"))
    desc = Ref(ckpt_table_desc(sizeof(ckpt_table_desc), dtype_of(eltype(ids)).code, length(ids), buckets,
                               rows_per_block, length(descs), count, flags, 0,
                               pointer(rows), length(rows), pointer(gone), length(gone)))
    arrays = Any[]
    foreach(slab -> foreach(array -> push!(arrays, array), slab), slabs)
    # Before the call, since the library may keep addresses even if it fails.
    push!(save.arrays, ids, places, rows, gone, arrays)
    with_lists(map(column -> column.first, collect(columns)), arrays) do names, data, bytes
        with_memory(ids) do first, size
            with_memory(places) do at, _
                call_alone(save.handle) do pointer, err
                    ckpt_save_add_table(pointer, name, desc, first, size, names, descs, data, bytes, at,
                                        kind, number, stream, err)
                end
            end
        end
    end
    return nothing
end

check_ids(ids) = eltype(ids) in (Int64, UInt64) && is_contiguous(size(ids), memory_strides(ids)) ||
                 throw(ArgumentError("ids are a vector of Int64 or UInt64 in one piece, not a $(typeof(ids))"))

slabs_of(array::AbstractArray) = eltype(array) <: AbstractArray ? Any[slab for slab in array] : Any[array]

function column_desc(name, slabs, dtypes)
    isempty(slabs) && throw(ArgumentError("column $name has no memory: give an array without rows"))
    type = haskey(dtypes, name) ? DType(dtypes[name]) : dtype_of(eltype(slabs[1]))
    for array in slabs
        check_rows(name, array)
        row_size(array) == row_size(slabs[1]) && eltype(array) === eltype(slabs[1]) ||
            throw(DimensionMismatch("the slabs of column $name have rows of different sizes or types"))
    end
    bits(type) == 8 * sizeof(eltype(slabs[1])) ||
        throw(ArgumentError("column $name: elements of $(nameof(type)) have $(bits(type)) bits, the array's have not"))
    row = reverse(row_size(slabs[1]))
    length(row) < 16 || throw(ArgumentError("column $name: a row of $(length(row)) dimensions, at most 15"))
    return ckpt_column_desc(sizeof(ckpt_column_desc), type.code, length(row), 0, sixteen(row))
end

row_size(array) = ntuple(d -> size(array, d), ndims(array) - 1)

function check_rows(name, array)
    ndims(array) > 0 || throw(DimensionMismatch("column $name has no dimension of rows"))
    is_contiguous(size(array), memory_strides(array)) ||
        throw(ArgumentError("the memory of column $name is not in one piece: collect it first"))
    return nothing
end

# Calls f(names, data, bytes) with C's lists of texts, addresses and sizes; what they point into lives meanwhile.
function with_lists(f, names, arrays)
    texts = map(zero_ended, names)
    bytes = UInt64[span_bytes(array) for array in arrays]
    GC.@preserve texts arrays begin
        list = Ptr{UInt8}[pointer(text) for text in texts]
        data = Ptr{Cvoid}[isempty(array) ? C_NULL : Ptr{Cvoid}(pointer(array)) for array in arrays]
        GC.@preserve list f(Ptr{Cstring}(pointer(list)), data, bytes)
    end
    return nothing
end

function zero_ended(name::AbstractString)
    text = collect(codeunits(String(name)))
    0x00 in text && throw(ArgumentError("the name $name holds a NUL"))
    return push!(text, 0x00)
end

# ---- what a reader tells ----

"""
A sparse table of a checkpoint: `name`, `id_dtype` (`i64` or `u64`), `row_count` of all ranks, `bucket_count`,
`column_count`, `bytes` of ids and columns, `stored_bytes` in the parts.
"""
TableInfo

"""
A column of a sparse table: `name`, `dtype`, `shape` of one row (row-major, as in C; empty for one element),
`row_bytes`, `stored_bytes` in the parts.
"""
ColumnInfo

"All sparse tables, in the order of their names. Their tensors are among `tensors` too."
function tables(reader::Reader)
    count = use(ckpt_reader_table_count, reader.handle)
    return map(0:Int(count)-1) do index
        told((pointer, out, err) -> ckpt_reader_table_at(pointer, index, out, err), reader.handle, ckpt_table_info,
             TableInfo)
    end
end

"One sparse table by its name. Throws NOT_FOUND, also for a tensor's name."
table(reader::Reader, name::AbstractString) =
    told((pointer, out, err) -> ckpt_reader_table_find(pointer, name, out, err), reader.handle, ckpt_table_info,
         TableInfo)

"The columns of a sparse table, in the order in which they were saved. Throws NOT_FOUND."
function columns(reader::Reader, name::AbstractString)
    return map(0:table(reader, name).column_count-1) do index
        told((pointer, out, err) -> ckpt_reader_table_column_at(pointer, name, index, out, err), reader.handle,
             ckpt_column_info, ColumnInfo)
    end
end

# ---- shares ----

"""
    Share(reader, table; slice, buckets, mod, ids, window_rows = 0, since, options…)

The rows of a sparse table that this rank wants, counted before arrays are made for them. Without a keyword these are
all rows; or

* `slice = (index, count)`: the buckets in `count` equal ranges, the first ones one longer, of which this is number
  `index`, from 0: what a rank of a trainer with `count` ranks wants
* `buckets = first:last`: these buckets; that of an id is `id mod bucket_count`, as UInt64, so they begin at 0
* `mod = (index, count)`: ids whose value as UInt64 is `index` modulo `count`. It reads all ids of the table
* `ids`: these ids, in their order, without those that the table lacks

With `since`, a reader of an earlier checkpoint, and without `ids`, these are only the rows that are new or other than
there, and `missing_ids` those that are gone.

Rows come in windows of at most `window_rows` rows, so that a table larger than memory can be passed through; with 0 in
one. Fields: `row_count`, `window_count` (at least 1), `most_rows` of the largest window, `missing_ids` of `ids`. Then
[`add_table!`](@ref) loads a window. Options: those used by `share`. Throws NOT_FOUND (no such table), MISMATCH (two
ranks saved one of `ids`), INVALID, INCOMPLETE, CORRUPT, FORMAT, GONE, IO.
"""
struct Share <: Resource
    handle::Handle{ckpt_share}
    id_dtype::DType
    columns::Vector{ColumnInfo}
    row_count::Int
    window_count::Int
    most_rows::Int
    missing_ids::Union{Vector{Int64},Vector{UInt64}}
end

function Share(reader::Reader, name::AbstractString; slice = nothing, buckets = nothing, mod = nothing, ids = nothing,
               window_rows = 0, since = nothing, options...)
    given = [kind for (kind, value) in [:SLICE => slice, :BUCKETS => buckets, :MOD => mod, :IDS => ids]
             if !isnothing(value)]
    length(given) < 2 || throw(ArgumentError("a share takes one of slice, buckets, mod and ids"))
    kind = number_of(SHARE_KINDS, isempty(given) ? :ALL : given[1])
    index, count = something(isnothing(slice) ? mod : slice, (0, 0))
    from, to = isnothing(buckets) ? (0, 0) : (first(buckets), last(buckets) + 1)
    list = isnothing(ids) ? UInt64[] : id_bits(ids)
    handle = with_options(options) do bag
        use(something(since, reader).handle) do earlier
            desc = Ref(ckpt_share_desc(sizeof(ckpt_share_desc), kind, from, to, index, count, window_rows,
                                       isnothing(since) ? C_NULL : earlier))
            use(reader.handle) do pointer
                made((out, err) -> ckpt_share_open(out, pointer, name, desc, list, length(list), bag, err), ckpt_share)
            end
        end
    end
    out = sized(ckpt_share_info)
    call((pointer, err) -> ckpt_share_get(pointer, out, err), handle)
    info, type = out[], table(reader, name).id_dtype
    return Share(handle, type, columns(reader, name), Int(info.row_count), Int(info.window_count),
                 Int(info.most_rows), missing_ids(handle, type, Int(info.missing_count)))
end

function id_bits(ids)
    list = collect(ids)
    isempty(list) && return UInt64[]
    check_ids(list)
    return collect(reinterpret(UInt64, list))
end

function missing_ids(handle, type, count)
    ids, id = zeros(UInt64, count), Ref(UInt64(0))
    for i in 1:count
        call((pointer, err) -> ckpt_share_missing_at(pointer, i - 1, id, err), handle)
        ids[i] = id[]
    end
    return collect(reinterpret(element_type(type), ids))
end

"The rows of a window of a share, by its number, from 1. Throws NOT_FOUND."
function window_rows(share::Share, window::Integer)
    rows = Ref(UInt64(0))
    call((pointer, err) -> ckpt_share_window_rows(pointer, window - 1, rows, err), share.handle)
    return Int(rows[])
end

# ---- loads ----

"""
    add_table!(load, share, window, ids, columns...; device = (:CPU, 0), stream = 0)

Asks for the rows of a window, from 1, of a share of the same reader: their ids in the vector `ids`, and any columns,
such as `"embedding" => matrix`, in arrays whose last dimension counts rows, as in `add_table!(save, …)`. They have
room for [`window_rows`](@ref) rows or more, in one piece. Which rows are where, the ids tell; of `Share(…; ids)` rows
come in the order asked for, and `ids` may be `nothing`. `device` and `stream` are those of the columns' memory, as in
`add_table!(save, …)`. Throws NOT_FOUND (no such column), INVALID; ArgumentError for elements of another type. The load
throws MISMATCH if two ranks saved an id, and FORMAT if rows are not sorted as they should be; arrays have changed then.
"""
function add_table!(load::Load, share::Share, window::Integer, ids::Union{AbstractVector,Nothing}, columns::Pair...;
                    device = (:CPU, 0), stream = 0)
    kind, number = number_of(DEVICES, device[1]), device[2]
    isnothing(ids) || check_ids(ids)
    isnothing(ids) || dtype_of(eltype(ids)) === share.id_dtype ||
        throw(ArgumentError("ids of $(nameof(share.id_dtype)) into a $(typeof(ids))"))
    names = map(column -> column.first, collect(columns))
    arrays = Any[column.second for column in columns]
    check_writable(ids)
    foreach(check_writable, arrays)
    foreach(column -> check_column(share, column.first, column.second), collect(columns))
    push!(load.arrays, ids, arrays)  # before the call, since the library may keep addresses even if it fails
    with_lists(names, arrays) do list, data, bytes
        with_memory(ids) do first, size
            use(share.handle) do from
                call_alone(load.handle) do pointer, err
                    ckpt_load_add_table(pointer, from, window - 1, first, size, length(arrays), list, data, bytes,
                                        kind, number, stream, err)
                end
            end
        end
    end
    return nothing
end

# Of a column that the table lacks the library says so.
function check_column(share, name, array)
    check_rows(name, array)
    at = findfirst(column -> column.name == name, share.columns)
    isnothing(at) && return nothing
    dtype, T = share.columns[at].dtype, eltype(array)
    known = element_type(dtype)
    T === known || T === UInt8 || isnothing(known) && T === bits_type(dtype) ||
        throw(ArgumentError("column $name has elements of $(nameof(dtype)), the array of $T"))
    return nothing
end

"""
    load_table(reader, name; columns = nothing, bits = false, slice, buckets, mod, ids, options…)

Loads rows of a sparse table into new arrays: `(; ids, columns, missing_ids)`, where `columns` is a Dict from names to
arrays whose last dimension counts rows, of all columns or of those named. The keywords that choose rows are those of
[`Share`](@ref), `bits` is that of `load_tensor`, options are those of `Load`.
"""
function load_table(reader::Reader, name::AbstractString; columns = nothing, bits = false, slice = nothing,
                    buckets = nothing, mod = nothing, ids = nothing, options...)
    share, load = Share(reader, name; slice, buckets, mod, ids), Load(reader; options...)
    try
        wanted = something(columns, map(column -> column.name, share.columns))
        arrays = Dict{String,Any}(column.name => new_column(column, share.row_count, bits)
                                  for column in share.columns if column.name in wanted)
        found = Vector{element_type(share.id_dtype)}(undef, share.row_count)
        add_table!(load, share, 1, found, [name => get(arrays, name, UInt8[]) for name in wanted]...)
        run(load)
        return (; ids = found, columns = arrays, missing_ids = share.missing_ids)
    finally
        close(load)
        close(share)
    end
end

new_column(column, rows, bits) =
    Array{julia_type(column.dtype, bits)}(undef, reverse(column.shape)..., rows)
