// STXXL: the breadth-first search of Munagala and Ranade over its vector and sorter. Called as
// stxxl_bfs FILE EDGES MEMORY_BYTES NODE_COUNT; prints one line of JSON. The file EDGES has pairs of
// numbers of 4 bytes. Sorting them into adjacency arrays is not timed.

#include "measure.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <stxxl/io>
#include <stxxl/sequence>
#include <stxxl/sorter>
#include <stxxl/vector>

typedef std::uint64_t Node;
typedef std::pair<Node, Node> Edge;

struct LessEdge {
    bool operator()(const Edge& left, const Edge& right) const { return left < right; }
    Edge min_value() const { return Edge(0, 0); }
    Edge max_value() const
    {
        const Node most = std::numeric_limits<Node>::max();
        return Edge(most, most);
    }
};

struct LessNode {
    bool operator()(Node left, Node right) const { return left < right; }
    Node min_value() const { return 0; }
    Node max_value() const { return std::numeric_limits<Node>::max(); }
};

const unsigned BLOCK_BYTES = 256 << 10;
typedef stxxl::VECTOR_GENERATOR<Node, 1, 16, BLOCK_BYTES>::result Numbers;
typedef stxxl::sequence<Node, BLOCK_BYTES> Level;
typedef stxxl::sorter<Edge, LessEdge, BLOCK_BYTES> EdgeSorter;
typedef stxxl::sorter<Node, LessNode, BLOCK_BYTES> NodeSorter;

int main(int, char** arguments)
{
    FILE* const answer = claim_stdout();
    const std::uint64_t memory_bytes = std::strtoull(arguments[3], nullptr, 10);
    const std::uint64_t node_count = std::strtoull(arguments[4], nullptr, 10);
    FILE* const file = std::fopen(arguments[2], "rb");
    if (file == nullptr) {
        std::perror(arguments[2]);
        return 1;
    }
    stxxl::config* config = stxxl::config::get_instance();
    config->add_disk(stxxl::disk_config(arguments[1], 16ull << 30, "linuxaio direct=on unlink"));
    // Where edges of a node begin, one more at the end; and the edges.
    std::fseek(file, 0, SEEK_END);
    const std::uint64_t edge_count = std::ftell(file) / 8;
    std::rewind(file);
    Numbers offsets(node_count + 1), targets(2 * edge_count);
    {
        EdgeSorter sorter(LessEdge(), (memory_bytes - 16 * BLOCK_BYTES * 3) / 3 * 2);
        std::vector<std::uint32_t> buffer(1 << 16);
        for (std::size_t count; (count = std::fread(buffer.data(), 8, buffer.size() / 2, file)) > 0;) {
            for (std::size_t at = 0; at < count; ++at) {
                sorter.push(Edge(buffer[2 * at], buffer[2 * at + 1]));
                sorter.push(Edge(buffer[2 * at + 1], buffer[2 * at]));
            }
        }
        std::fclose(file);
        sorter.sort();
        Numbers::bufwriter_type offset_writer(offsets), target_writer(targets);
        Node next = 0;
        std::uint64_t written = 0;
        for (; !sorter.empty(); ++sorter) {
            for (; next <= sorter->first; ++next) {
                offset_writer << written;
            }
            target_writer << sorter->second;
            ++written;
        }
        for (; next <= node_count; ++next) {
            offset_writer << written;
        }
        offset_writer.finish();
        target_writer.finish();
    }
    offsets.flush();
    targets.flush();

    const Meter meter;
    // Levels are sequences, of which those at hand are two and the one that is made.
    // A run is sorted by both cores into a copy of it, which is beside what a sorter is given.
    const std::uint64_t sort_bytes = (memory_bytes - 16 * BLOCK_BYTES * 2 - (6 << 20)) / 3 * 2;
    std::unique_ptr<Level> before(new Level), current(new Level), next;
    current->push_back(0);
    std::uint64_t reached = 1, level = 0, sum = 1;
    while (!current->empty()) {
        ++level;
        NodeSorter neighbours(LessNode(), sort_bytes);
        const Numbers &offset_of = offsets, &target_of = targets;
        for (Level::stream nodes = current->get_stream(); !nodes.empty(); ++nodes) {
            const std::uint64_t begin = offset_of[*nodes], end = offset_of[*nodes + 1];
            for (std::uint64_t at = begin; at < end; ++at) {
                neighbours.push(target_of[at]);
            }
        }
        neighbours.sort();
        next.reset(new Level);
        {
            Level::stream current_nodes = current->get_stream();
            Level::stream before_nodes = before->get_stream();
            Node last = std::numeric_limits<Node>::max();
            for (; !neighbours.empty(); ++neighbours) {
                const Node node = *neighbours;
                if (node == last) {
                    continue;
                }
                last = node;
                while (!current_nodes.empty() && *current_nodes < node) {
                    ++current_nodes;
                }
                while (!before_nodes.empty() && *before_nodes < node) {
                    ++before_nodes;
                }
                const bool is_known = (!current_nodes.empty() && *current_nodes == node)
                    || (!before_nodes.empty() && *before_nodes == node);
                if (!is_known) {
                    next->push_back(node);
                    ++reached;
                    sum += (node + 1) * (level + 1);
                }
            }
        }
        before = std::move(current);
        current = std::move(next);
    }
    const Spent spent = meter.stop();
    const std::string row = "\"" + std::to_string(reached) + "\", \"" + std::to_string(level) + "\", \""
        + std::to_string(sum) + "\"";
    return spent.tell(answer, row);
}
