# Carries out the programs of the package's README one after the other: those that are whole programs, and the functions
# that the others define.
#
#   readme.jl STORE FOLDER COUNT      FOLDER has the programs, a number and .jl each

for number in 1:parse(Int, ARGS[3])
    include(joinpath(ARGS[2], "$number.jl"))
end

size(part) == (2, 4) && part == load_tensor(reader, "w")[2:3, 1:4] || error("resharding: $part")

ranks = Store("mem:ranks")
first_session = Session(ranks; rank = 0, world_size = 2)
second_session = Session(ranks; rank = 1, world_size = 2, string = Ckpt.session_string(first_session))
halves = [reshape(Float32[1, 2, 3, 4], 2, 2), reshape(Float32[5, 6, 7, 8], 2, 2)]
tasks = [Threads.@spawn(save_rank(first_session, 0, 2, halves[1], 7)),
         Threads.@spawn(save_rank(second_session, 1, 2, halves[2], 7))]
foreach(wait, tasks)
load_tensor(Reader(ranks, "step-7"), "w") == reshape(collect(Float32, 1:8), 2, 4) || error("several ranks")

job = save_in_background(session, "later", weights)
fill!(weights, 0)
wait(job)
close(job)
load_tensor(Reader(store, "later"), "w")[12] == 1.5f0 || error("in the background")

checkpoint(session, zeros(Float32, 2), ones(Float32, 2))
last_epoch(store) == 3 || error("state trees: $(last_epoch(store))")

isnothing(newest(Store("mem:none"))) || error("errors")
println("all programs of README.md do what it says")
