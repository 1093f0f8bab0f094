// Semi-external: three bits a node in memory, known nodes and two levels, and edges in a file that is mapped.
// A level of few nodes has a list beside its bits, so that nobody looks through all of them. Called as
// mmap_bfs ADJACENCY NODE_COUNT, where the file ADJACENCY has the offsets of all nodes and of the end, 8
// bytes each, and the targets, 4 bytes each; prints one line of JSON.

#include "measure.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int, char** arguments)
{
    FILE* const answer = claim_stdout();
    const std::uint64_t node_count = std::strtoull(arguments[2], nullptr, 10);
    const int file = open(arguments[1], O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) {
        std::perror(arguments[1]);
        return 1;
    }
    void* const mapped = mmap(nullptr, status.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        std::perror("mmap");
        return 1;
    }
    const std::uint64_t* const offsets = static_cast<const std::uint64_t*>(mapped);
    const std::uint32_t* const targets = reinterpret_cast<const std::uint32_t*>(offsets + node_count + 1);

    const Meter meter;
    std::vector<std::uint64_t> is_known(node_count / 64 + 1), current_bits(node_count / 64 + 1),
        next_bits(node_count / 64 + 1);
    const std::size_t list_max = node_count / 256 + 1;
    std::vector<std::uint32_t> current(1, 0), next;
    current.reserve(list_max);
    next.reserve(list_max);
    is_known[0] = 1;
    std::uint64_t reached = 1, level = 0, sum = 1, current_count = 1, next_count = 0;
    const auto visit = [&](const std::uint64_t node) {
        for (std::uint64_t at = offsets[node]; at < offsets[node + 1]; ++at) {
            const std::uint32_t target = targets[at];
            const std::uint64_t bit = std::uint64_t(1) << target % 64;
            if (!(is_known[target / 64] & bit)) {
                is_known[target / 64] |= bit;
                next_bits[target / 64] |= bit;
                if (next_count < list_max)
                    next.push_back(target);
                ++next_count;
                sum += (target + std::uint64_t(1)) * (level + 1);
            }
        }
    };
    while (current_count > 0) {
        ++level;
        // In the order of the file, which is what a disk likes.
        if (current_count <= list_max) {
            std::sort(current.begin(), current.end());
            for (const std::uint32_t node : current) {
                current_bits[node / 64] = 0;
                visit(node);
            }
        } else {
            for (std::uint64_t word = 0; word < current_bits.size(); ++word) {
                for (std::uint64_t bits = current_bits[word]; bits != 0; bits &= bits - 1)
                    visit(word * 64 + __builtin_ctzll(bits));
                current_bits[word] = 0;
            }
        }
        reached += next_count;
        current_count = next_count;
        next_count = 0;
        current.swap(next);
        current_bits.swap(next_bits);
        next.clear();
    }
    const Spent spent = meter.stop();
    const std::string row = "\"" + std::to_string(reached) + "\", \"" + std::to_string(level) + "\", \""
        + std::to_string(sum) + "\"";
    return spent.tell(answer, row);
}
