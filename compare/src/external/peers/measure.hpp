// What the programs of C++ share: the clock around the work, and the answer as one line of JSON.

#ifndef MEASURE_HPP
#define MEASURE_HPP

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

// Keeps stdout for the answer: libraries tell of their disks there.
inline FILE* claim_stdout()
{
    FILE* const answer = fdopen(dup(STDOUT_FILENO), "w");
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return answer;
}

inline double field(const char* path, const char* name)
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

inline double seconds_of(const timeval& time) { return time.tv_sec + time.tv_usec / 1e6; }

inline double now()
{
    timeval time;
    gettimeofday(&time, nullptr);
    return seconds_of(time);
}

// What some work took.
struct Spent {
    double seconds, user_s, system_s, read_bytes, written_bytes, peak_bytes;

    // The line of JSON with the fields of a row, which are JSON; the exit code.
    int tell(FILE* answer, const std::string& row) const
    {
        std::fprintf(
            answer,
            "{\"row\": [%s], \"seconds\": %f, \"user_s\": %f, \"system_s\": %f, "
            "\"read_bytes\": %.0f, \"written_bytes\": %.0f, \"dropped_bytes\": 0, "
            "\"peak_rss_bytes\": %.0f}\n",
            row.c_str(), seconds, user_s, system_s, read_bytes, written_bytes, peak_bytes);
        return std::fclose(answer) == 0 ? 0 : 1;
    }
};

// Counts from when it is made.
class Meter {
public:
    Meter()
        : read_(field("/proc/self/io", "read_bytes:"))
        , written_(field("/proc/self/io", "write_bytes:"))
    {
        getrusage(RUSAGE_SELF, &usage_);
        started_ = now();
    }

    Spent stop() const
    {
        const double elapsed = now() - started_;
        rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        return { elapsed, seconds_of(usage.ru_utime) - seconds_of(usage_.ru_utime),
            seconds_of(usage.ru_stime) - seconds_of(usage_.ru_stime),
            field("/proc/self/io", "read_bytes:") - read_,
            field("/proc/self/io", "write_bytes:") - written_,
            1024 * field("/proc/self/status", "VmHWM:") };
    }

private:
    double read_, written_, started_;
    rusage usage_;
};

#endif
