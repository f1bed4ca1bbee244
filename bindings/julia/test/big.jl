@testset "buffers of more than 2 GiB are saved and loaded whole" begin
    bytes = 2_200_000_000
    mktempdir() do folder
        store = Store(folder)
        save = Save(Session(store), "big"; compression = "lz4")
        array = Mmap.mmap(Vector{UInt8}, bytes)
        places = (1, 2^31 + 1, bytes)
        for (value, place) in enumerate(places)
            array[place] = value
        end
        add_tensor!(save, "w", array)
        run(save)
        found = Mmap.mmap(Vector{UInt8}, bytes)
        load = Load(Reader(store))
        add_tensor!(load, "w", found)
        run(load)
        @test [found[place] for place in places] == UInt8[1, 2, 3]
    end
end
