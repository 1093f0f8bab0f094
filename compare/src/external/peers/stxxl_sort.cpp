// STXXL: records of two numbers in a vector, sorted where they are. Only the sort is timed. Called as
// stxxl_sort VARIANT FILE MEMORY_BYTES RECORD_COUNT SEED, where a variant is `sort` or `ksort`; prints one
// line of JSON.

#include "measure.hpp"

#include <cstdint>
#include <limits>
#include <string>

#include <stxxl/io>
#include <stxxl/ksort>
#include <stxxl/sort>
#include <stxxl/vector>

struct Entry {
    std::uint64_t key, payload;
};

struct Less {
    bool operator()(const Entry& left, const Entry& right) const
    {
        return left.key != right.key ? left.key < right.key : left.payload < right.payload;
    }
    Entry min_value() const { return { 0, 0 }; }
    Entry max_value() const
    {
        const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
        return { most, most };
    }
};

struct Key {
    typedef std::uint64_t key_type;
    key_type operator()(const Entry& entry) const { return entry.key; }
    Entry min_value() const { return { 0, 0 }; }
    Entry max_value() const
    {
        const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
        return { most, most };
    }
};

static std::uint64_t key_of(std::uint64_t number, std::uint64_t seed)
{
    std::uint64_t key = (number + seed + 1) * 0x9E3779B97F4A7C15ull;
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ull;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBull;
    return key ^ (key >> 31);
}

int main(int, char** arguments)
{
    FILE* const answer = claim_stdout();
    const std::string variant = arguments[1];
    const std::uint64_t memory_bytes = std::strtoull(arguments[3], nullptr, 10);
    const std::uint64_t count = std::strtoull(arguments[4], nullptr, 10);
    const std::uint64_t seed = std::strtoull(arguments[5], nullptr, 10);
    stxxl::config* config = stxxl::config::get_instance();
    // Input and runs, and some room between.
    const std::uint64_t disk_bytes = 5 * count * sizeof(Entry) / 2 + (1ull << 30);
    config->add_disk(stxxl::disk_config(arguments[2], disk_bytes, "linuxaio direct=on unlink"));

    typedef stxxl::VECTOR_GENERATOR<Entry, 4, 4, (1 << 20)>::result Records;
    Records records(count);
    {
        Records::bufwriter_type writer(records);
        for (std::uint64_t number = 0; number < count; ++number) {
            writer << Entry { key_of(number, seed), number };
        }
        writer.finish();
    }
    records.flush();

    const Meter meter;
    if (variant == "ksort") {
        stxxl::ksort(records.begin(), records.end(), Key(), memory_bytes);
    } else {
        stxxl::sort(records.begin(), records.end(), Less(), memory_bytes);
    }
    records.flush();
    const Spent spent = meter.stop();

    std::uint64_t sum = 0, position = 0;
    for (Records::bufreader_type reader(records); !reader.empty(); ++reader) {
        sum += ++position * reader->key;
    }
    return spent.tell(answer, "\"" + std::to_string(position) + "\", \"" + std::to_string(sum) + "\"");
}
