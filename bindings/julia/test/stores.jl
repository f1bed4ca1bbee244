@testset "checkpoints are listed, found, pruned and removed" begin
    mktempdir() do folder
        open(Store, folder) do store
            session = Session(store)
            for step in 1:4
                save = Save(session, "s$step"; step)
                add_tensor!(save, "w", Float32[step])
                set_attr!(save, "note", "step $step")
                set_attr!(save, "unit", "m"; tensor = "w")
                @test Ckpt.id(save) == "s$step.1.1"
                run(save)
            end
            @test [info.label for info in Ckpt.checkpoints(store)] == ["s1", "s2", "s3", "s4"]
            @test Ckpt.find_checkpoint(store).step == 4
            @test Ckpt.find_checkpoint(store, "step:2").label == "s2"
            @test status_of(() -> Ckpt.find_checkpoint(store, "s9")) === :NOT_FOUND
            reader = Reader(store, "s2")
            @test Ckpt.attrs(reader) == ["note" => "step 2"]
            @test Ckpt.attr(reader, "unit"; tensor = "w") == "m"
            @test isnothing(Ckpt.attr(reader, "absent"))
            @test status_of(() -> Ckpt.remove_checkpoint(store, "s2.1.1")) === :CONFLICT
            close(reader)
            Ckpt.remove_checkpoint(store, "s2.1.1")
            would = Ckpt.prune(store; keep_last = 1, dry_run = true)
            @test [finding.kind for finding in would] == [:REMOVED, :REMOVED]
            @test length(Ckpt.prune(store; keep_last = 1)) == 2
            @test [info.label for info in Ckpt.checkpoints(store)] == ["s4"]
        end
    end
end

@testset "damage is found by verify, refused by load, and a lost manifest repaired" begin
    mktempdir() do folder
        store = Store(folder)
        save = Save(Session(store), "a")
        add_tensor!(save, "w", collect(Float32, 1:5000))
        run(save)
        manifest = joinpath(folder, "a.1.1", "MANIFEST")
        rm(manifest)
        @test status_of(() -> Reader(store, "a.1.1")) === :INCOMPLETE
        @test Ckpt.repair(store, "a.1.1")[1].kind === :REPAIRED
        Ckpt.repair(store, "a.1.1"; dry_run = false)
        part = joinpath(folder, "a.1.1", "PART_000")
        bytes = read(part)
        bytes[5000] = xor(bytes[5000], 0x01)
        write(part, bytes)
        reader = Reader(store)
        job = Ckpt.verify(reader)
        wait(job)
        damage = Ckpt.report(job)
        @test length(damage) == 1 && damage[1].kind === :DAMAGED && damage[1].status === :CORRUPT
        error = thrown(() -> load_tensor(reader, "w"))
        @test error.status === :CORRUPT
        @test error.details["part"] == "PART_000"
    end
end

@testset "newer checkpoints that cannot be loaded are passed over with a warning, or are an error" begin
    mktempdir() do folder
        store = Store(folder)
        session = Session(store)
        for step in 1:2
            save = Save(session, "s$step"; step)
            add_tensor!(save, "w", Float32[step])
            run(save)
        end
        @test isempty(Ckpt.report(Reader(store)))
        manifest = joinpath(folder, "s2.1.1", "MANIFEST")
        bytes = read(manifest)
        bytes[101] = xor(bytes[101], 0x01)
        write(manifest, bytes)
        reader = @test_logs (:warn,) Reader(store)
        @test Ckpt.info(reader).step == 1 && Ckpt.info(reader).passed_over == 1
        found = Ckpt.report(reader)
        @test length(found) == 1 && found[1].kind === :PASSED_OVER
        @test found[1].name == "s2.1.1" && found[1].status === :CORRUPT
        @test Ckpt.find_checkpoint(store).passed_over == 1
        @test status_of(() -> Reader(store; on_damaged = "error")) === :CORRUPT
    end
end

@testset "a save that goes on from nothing that its run has warns, whoever waits for it" begin
    store = Store("mem:anew")
    function save_step(step; wait = true, options...)
        session = Session(store; options...)
        save = Save(session, "step-$step"; step)
        wait ? run(save) : start(save)
        close(session)
    end
    @test_logs save_step(10)
    @test_logs (:warn, r"does not go on from step-10\..*continue_from=none.*another directory") save_step(1)
    @test_logs (:warn, r"does not go on from step-10\.") save_step(0; wait = false)
    @test_logs save_step(2; continue_from = "none")
end

@testset "two checkpoints are compared to the element" begin
    store = Store("mem:diff")
    session = Session(store)
    for (label, last) in (("a", 3), ("b", 5))
        save = Save(session, label)
        add_tensor!(save, "w", Float32[1, 2, last])
        run(save)
    end
    found = diff(Reader(store, "a"), Reader(store, "b"))
    @test length(found) == 1
    @test found[1].kind === :DIFFERENT && found[1].elements == 3:3 && found[1].max_abs == 2
    @test isempty(diff(Reader(store, "a"), Reader(store, "a")))
end

@testset "tied weights are one tensor with two names" begin
    fill_tied(save) = begin
        add_tensor!(save, "w", reshape(collect(Float32, 1:6), 2, 3))
        add_alias!(save, "tied", "w")
        add_alias!(save, "row", "w", TensorDesc(:f32, (2,); offset = 2, strides = (1,)))
    end
    with_checkpoint("tied", fill_tied) do reader
        @test Ckpt.tensor(reader, "tied").alias_of == "w"
        @test load_tensor(reader, "tied") == load_tensor(reader, "w")
        @test load_tensor(reader, "row") == Float32[3, 4]
        @test Ckpt.shape(Ckpt.alias(reader, "row")) == [2]
        @test [tensor.name for tensor in Ckpt.tensors(reader)] == ["row", "tied", "w"]
    end
end
