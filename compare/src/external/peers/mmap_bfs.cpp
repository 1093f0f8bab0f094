// Semi-external: levels of nodes in memory, edges in a file that is mapped. Called as
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
    std::vector<bool> is_known(node_count, false);
    std::vector<std::uint32_t> current(1, 0), next;
    is_known[0] = true;
    std::uint64_t reached = 1, level = 0, sum = 1;
    while (!current.empty()) {
        ++level;
        next.clear();
        for (const std::uint32_t node : current) {
            for (std::uint64_t at = offsets[node]; at < offsets[node + 1]; ++at) {
                const std::uint32_t target = targets[at];
                if (!is_known[target]) {
                    is_known[target] = true;
                    next.push_back(target);
                    ++reached;
                    sum += (target + std::uint64_t(1)) * (level + 1);
                }
            }
        }
        // In the order of the file, which is what a disk likes.
        std::sort(next.begin(), next.end());
        current.swap(next);
    }
    const Spent spent = meter.stop();
    const std::string row = "\"" + std::to_string(reached) + "\", \"" + std::to_string(level) + "\", \""
        + std::to_string(sum) + "\"";
    return spent.tell(answer, row);
}
