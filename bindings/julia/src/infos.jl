# What the library reports about checkpoints, tensors, objects, parts and jobs, copied into Julia's own types.

# The text of a field of fixed size; the text at a pointer, `nothing` for null.
function text(field::NTuple{N,UInt8}) where {N}
    ended = something(findfirst(iszero, field), N + 1)
    return String(UInt8[field[i] for i in 1:ended-1])
end
text(pointer::Cstring) = pointer == C_NULL ? nothing : unsafe_string(pointer)

# The first `ndim` of 16; none where ndim is -1.
extents(values::NTuple{16,Int64}, ndim) = Int[values[i] for i in 1:ndim]

"""
One checkpoint of a store, or an attempt at one.

* `id`: the name of its directory, unique in the store; `label`, `run`; `step`, which may be `nothing`
* `state`: `:COMMITTED`, `:OPEN` (no commit record yet), `:ABORTED`, `:DAMAGED`, `:REVISION` (of a format revision that
  the library lacks), `:UNREADABLE` (it may be sound, but cannot be read by this user or machine now);
  `flags`: `:FOREIGN`, `:REBUILT`, `:COPY` (another directory holds the same save),
  `:MIRRORED`, `:MIRRORING`, `:MIRROR_ONLY` (what a mirror has of it), `:KEPT` (it stays until somebody says so)
* `token`, `attempt`, `sequence`: the order of sessions, attempts and commits
* `world_size`: how many ranks wrote it; `bytes`: size of all parts and the manifest; `created_unix_ms`: by the writer's
  clock
* `names`: listed: those that it was given ([`name_checkpoint`](@ref)), with spaces between
* `passed_over`: found or opened by a selector, how many newer checkpoints of the run cannot be loaded
"""
CheckpointInfo

"""
One run of a store: `name`; `token` of the session that owns it (0: no record of one); `checkpoint_count`, without
foreign ones and copies; `newest_id`, `newest_label` and `newest_step` of the newest of these, or `nothing`. Whether
that one can be loaded, [`find_checkpoint`](@ref) tells.
"""
RunInfo

Base.show(io::IO, info::CheckpointInfo) =
    print(io, "CheckpointInfo(\"", info.id, "\", ", info.state, ", ", info.tensor_count, " tensors)")

"""
A tensor of a checkpoint: `name`, `dtype`, `shape` (row-major, as in C; `size(info)` is the size of a Julia array of
it), `bytes` of its elements, `stored_bytes` in the parts, `segment_count`; `alias_of`, the tensor that an alias
stands for.
"""
TensorInfo

Base.size(info::TensorInfo) = Tuple(reverse(info.shape))

"""
A segment: bytes of a tensor in one part. It holds a box of the tensor (`offset` and `extent`, row-major, from 0) or a
flat range (`flat_offset` and `flat_size`; `offset` and `extent` are empty). `codec`: 0 raw, 1 LZ4; `filter`: 0 none,
1 byte shuffle, 2 bit planes; `part_offset`: where its first chunk begins, in bytes.
"""
struct SegmentInfo
    part::Int
    isflat::Bool
    offset::Vector{Int}
    extent::Vector{Int}
    flat_offset::Int64
    flat_size::Int64
    codec::Int
    filter::Int
    chunk_count::Int
    part_offset::UInt64
    stored_bytes::UInt64
end

SegmentInfo(raw::ckpt_segment_info) =
    SegmentInfo(Int(raw.part), raw.ndim < 0, extents(raw.offset, raw.ndim), extents(raw.extent, raw.ndim),
                raw.flat_offset, raw.flat_size, Int(raw.codec), Int(raw.filter), Int(raw.chunk_count),
                raw.part_offset, raw.stored_bytes)

"Named bytes of a checkpoint: `scope` is `:SHARED`, `:PER_RANK` or `:TREE`, `rank` is `nothing` if shared."
ObjectInfo

"A file of a checkpoint: `name` (\"PART_003\"), the `rank` that wrote it, `bytes`, and the save it belongs to."
PartInfo

"""
What a job has done so far: bytes (`bytes_total` of work, `bytes_done`, `bytes_read`, `bytes_written`,
`bytes_requested`), counts (`chunk_count`, `run_count`, `io_count`), microseconds (`stage_us`, `write_us`, `commit_us`,
`total_us`, `arena_us`), `staging_peak_bytes`, `threads`, and whether `direct_io` and `recycled` files were used. Of
requests to the servers of stores (0 for local ones) by the classes that providers bill: `get_count` (GET and HEAD),
`put_count` (PUT and POST), `list_count`, `delete_count`, `retry_count` (of all these, sent again), and `bytes_sent` and
`bytes_received` in their bodies.
"""
JobStats

"""
One line of a report by verify, diff, prune, repair, a save, a load or a reader. `kind`: `:DAMAGED`, `:MISSING`,
`:EXTRA`, `:DIFFERENT`, `:REMOVED`, `:KEPT`, `:REPAIRED`, `:PASSED_OVER`, `:ANEW`, `:NO_CACHE`. `status` and `code` are
those of a `CkptError` if it is an error, else `:OK`. `text` is for people. `name`, `part`, `elements` (range in the
flattened tensor, from 1),
`max_abs` and `max_rel` are `nothing` where they do not apply. `offset` and `size` are bytes in the part; `count` is how
many elements differ.
"""
struct Finding
    kind::Union{Symbol,Int}
    status::Symbol
    code::Int32
    text::String
    name::Union{String,Nothing}
    part::Union{String,Nothing}
    offset::UInt64
    size::UInt64
    elements::Union{UnitRange{Int},Nothing}
    max_abs::Union{Float64,Nothing}
    max_rel::Union{Float64,Nothing}
    count::UInt64
end

Finding(raw::ckpt_finding) =
    Finding(name_of(FINDING_KINDS, raw.kind), status_name(raw.status), raw.status, text(raw.text), text(raw.name),
            text(raw.part), raw.offset, raw.size,
            raw.first_element < 0 ? nothing : (raw.first_element + 1:raw.last_element + 1),
            isnan(raw.max_abs) ? nothing : raw.max_abs, isnan(raw.max_rel) ? nothing : raw.max_rel, raw.count)

Base.show(io::IO, finding::Finding) = print(io, finding.kind, ": ", finding.text)

# f(out, err) is a C call that makes a report; the report is copied and freed.
findings(f) = listed(f, ckpt_report, ckpt_report_count, ckpt_report_at, ckpt_finding, Finding)

# f(out, err) is a C call that makes a list, a handle of type H; at(list, index, out, err) fills a C struct of type T.
# Each becomes an Info; the list is freed.
function listed(f, ::Type{H}, count, at, ::Type{T}, ::Type{Info}) where {H,T,Info}
    list = made(f, H)
    try
        return use(list) do pointer
            map(0:Int(count(pointer))-1) do index
                out = sized(T)
                checked(err -> at(pointer, index, out, err))
                Info(out[])
            end
        end
    finally
        shut(list)
    end
end
