# Keepers: when to save, what to keep, what to restore.

kind_of(word) = Symbol(uppercase(word))
or_nothing(word) = isempty(word) ? nothing : word
said_or_nothing(text) = [something(text, "")]
votes_of(call) = parse.(Int64, call.words[2:6])

command("keeper.new") do call
    keep!(call, 1, Keeper(object(call, 2); rank = integer(call, 3), world_size = integer(call, 4), settings(call)...))
end
command("keeper.tell") do call
    Ckpt.tell(object(call, 1), kind_of(call.words[2]), call.words[3], parse(Float64, call.words[4]))
end
command("keeper.step") do call
    string.(Ckpt.votes(object(call, 1), integer(call, 2); due = call.words[3] == "1"))
end
command(call -> Ckpt.note(object(call, 1), integer(call, 2)), "keeper.note")
command(call -> [lowercase(string(Ckpt.decide(object(call, 1), votes_of(call))))], "keeper.decide")
command(call -> [lowercase(string(Ckpt.decide(object(call, 1))))], "keeper.decide_alone")
command(call -> [Ckpt.needs_votes(object(call, 1)) ? "1" : "0"], "keeper.needs_votes")
command(call -> Ckpt.stop(object(call, 1), integer(call, 2)), "keeper.stop")
command(call -> Ckpt.catch_signal(object(call, 1), integer(call, 2)), "keeper.catch")
command(call -> said_or_nothing(Ckpt.stopping(object(call, 1))), "keeper.stopping")
command(call -> said_or_nothing(Ckpt.warning(object(call, 1))), "keeper.warning")

command("keeper.begin") do call
    keeper, session = object(call, 2), object(call, 3)
    other = key(call, "from")
    planner = isnothing(other) ? keeper : call.objects[other]
    save = Ckpt.begin_save(keeper, session, Ckpt.plan(planner, or_nothing(call.words[4])); settings(call)...)
    isnothing(save) || keep!(call, 1, save)
    return [isnothing(save) ? "0" : "1"]
end

command(call -> said_or_nothing(Ckpt.saved(object(call, 1))), "keeper.saved")
command(call -> said_or_nothing(Ckpt.find(object(call, 1), call.words[2])), "keeper.find")

command("keeper.pass_over") do call
    status = Symbol(call.words[2])
    Ckpt.pass_over(object(call, 1), CkptError(Ckpt.status_code(status), status, "damaged", Dict{String,String}()))
end

command(call -> Ckpt.restored(object(call, 1), object(call, 2)), "keeper.restored")

command("keeper.number") do call
    numbers = sort!(collect(Ckpt.numbers(object(call, 1), kind_of(call.words[2]))))
    name, value = get(numbers, integer(call, 3) + 1, "" => 0.0)
    return Dict("name" => name, "value" => value)
end
