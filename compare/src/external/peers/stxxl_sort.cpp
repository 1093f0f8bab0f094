// STXXL: records of two numbers in a vector, sorted where they are. Only the sort is timed. Called as
// stxxl_sort VARIANT FILE MEMORY_BYTES RECORD_COUNT SEED, where a variant is `sort` or `ksort`; prints one
// line of JSON.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

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

static double now()
{
    timeval time;
    gettimeofday(&time, nullptr);
    return time.tv_sec + time.tv_usec / 1e6;
}

static double seconds(const timeval& time) { return time.tv_sec + time.tv_usec / 1e6; }

static double field(const char* path, const char* name)
{
    std::ifstream file(path);
    std::string word;
    double value = 0;
    while (file >> word) {
        if (word == name) {
            file >> value;
        }
    }
    return value;
}

int main(int, char** arguments)
{
    // The library tells of its disks on stdout, which is for the answer.
    FILE* const answer = fdopen(dup(STDOUT_FILENO), "w");
    dup2(STDERR_FILENO, STDOUT_FILENO);
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

    rusage usage_before, usage;
    const double read_before = field("/proc/self/io", "read_bytes:");
    const double written_before = field("/proc/self/io", "write_bytes:");
    getrusage(RUSAGE_SELF, &usage_before);
    const double started = now();
    if (variant == "ksort") {
        stxxl::ksort(records.begin(), records.end(), Key(), memory_bytes);
    } else {
        stxxl::sort(records.begin(), records.end(), Less(), memory_bytes);
    }
    records.flush();
    const double elapsed = now() - started;
    getrusage(RUSAGE_SELF, &usage);
    const double read_bytes = field("/proc/self/io", "read_bytes:") - read_before;
    const double written_bytes = field("/proc/self/io", "write_bytes:") - written_before;
    const double peak_bytes = 1024 * field("/proc/self/status", "VmHWM:");

    std::uint64_t sum = 0, position = 0;
    for (Records::bufreader_type reader(records); !reader.empty(); ++reader) {
        sum += ++position * reader->key;
    }
    std::fprintf(
        answer,
        "{\"row\": [\"%llu\", \"%llu\"], \"seconds\": %f, \"user_s\": %f, \"system_s\": %f, "
        "\"read_bytes\": %.0f, \"written_bytes\": %.0f, \"dropped_bytes\": 0, "
        "\"peak_rss_bytes\": %.0f}\n",
        static_cast<unsigned long long>(position), static_cast<unsigned long long>(sum), elapsed,
        seconds(usage.ru_utime) - seconds(usage_before.ru_utime),
        seconds(usage.ru_stime) - seconds(usage_before.ru_stime), read_bytes, written_bytes, peak_bytes);
    return std::fclose(answer) == 0 ? 0 : 1;
}
