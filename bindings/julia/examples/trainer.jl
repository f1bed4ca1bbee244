# A small trainer that saves every few steps in the background, is stopped, and goes on from its checkpoint.
#
#   julia --project=bindings/julia examples/trainer.jl STORE [STEPS]
#
# It fits a line to points by gradient descent with momentum. Started again with more steps it continues where it was.

using Ckpt

struct Trainer
    weights::Vector{Float64}   # slope, intercept
    momentum::Vector{Float64}
end

points() = [(x / 4, 3.0 * x / 4 - 2.0) for x in -4:4]

function train_step!(trainer, data)
    gradient = [0.0, 0.0]
    for (x, y) in data
        wrong = trainer.weights[1] * x + trainer.weights[2] - y
        gradient[1] += 2 * wrong * x / length(data)
        gradient[2] += 2 * wrong / length(data)
    end
    for i in 1:2
        trainer.momentum[i] = 0.9 * trainer.momentum[i] + gradient[i]
        trainer.weights[i] -= 0.02 * trainer.momentum[i]
    end
end

# The state: tensors, and whatever else it takes to go on.
state_of(trainer, step) = TreeDict("model" => TreeDict("weights" => trainer.weights),
                                   "optimizer" => TreeDict("momentum" => trainer.momentum, "lr" => 0.02),
                                   "step" => step)

# Step and trainer of the newest checkpoint, or of the beginning.
function resume(store)
    reader = try
        Reader(store)
    catch error
        error isa CkptError && error.status === :NOT_FOUND || rethrow()
        return 0, Trainer([0.0, 0.0], [0.0, 0.0])
    end
    state = load_state(reader)
    close(reader)
    return state["step"], Trainer(state["model"]["weights"], state["optimizer"]["momentum"])
end

function main(path, steps)
    store = Store(path)
    first_step, trainer = resume(store)
    println("starting at step ", first_step)
    session = Session(store)
    data, job = points(), nothing
    for step in first_step+1:steps
        isnothing(job) || wait(job, :STAGED)  # its copy is made: the weights may change
        train_step!(trainer, data)
        if step % 20 == 0
            isnothing(job) || (wait(job); close(job))  # one save at a time
            save = Save(session, "step-$step"; step, keep_last = 2)
            save_state(save, state_of(trainer, step))
            job = start(save)
        end
    end
    isnothing(job) || (wait(job); close(job))
    println("weights ", trainer.weights)
    println("checkpoints ", [info.label for info in Ckpt.checkpoints(store)])
    return trainer
end

abspath(PROGRAM_FILE) == @__FILE__() && main(ARGS[1], length(ARGS) > 1 ? parse(Int, ARGS[2]) : 100)
