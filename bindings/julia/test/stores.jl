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
