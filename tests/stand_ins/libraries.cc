// What the stand-ins of libraries.py must say for a provider to be made: cards, versions, and objects of TensorRT.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>

namespace {

constexpr int kCards = 2;
constexpr int kInvalidDevice = 101;  // cudaErrorInvalidDevice

// An object of TensorRT's interfaces: a table of methods, and the pointer to its implementation, itself.
struct Object {
  void** methods;
  Object* implementation;
};
void* methods[2][96];
Object objects[2] = {{methods[0], &objects[0]}, {methods[1], &objects[1]}};

// The first object's methods answer 0; where one is asked to count, by a variable of the caller, it counts nothing.
long nothing(void*, int* count) {
  const long here = reinterpret_cast<long>(__builtin_frame_address(0));
  const long away = reinterpret_cast<long>(count) - here;
  if (away > 0 && away < 1 << 16) *count = 0;
  return 0;
}
// Those of the second one return an object.
void* another() { return &objects[1]; }

void* object(int kind) {
  for (void*& one : methods[0]) one = reinterpret_cast<void*>(nothing);
  for (void*& one : methods[1]) one = reinterpret_cast<void*>(another);
  return &objects[kind];
}

// Where ONNX Runtime looks for cards, a folder of the test's.
std::string redirected(const char* path) {
  const char* folder = getenv("STAND_IN_SYS");
  for (const char* real : {"/sys/class/drm", "/sys/bus/pci"}) {
    if (folder && path && strncmp(path, real, strlen(real)) == 0) return std::string(folder) + path;
  }
  return path ? path : "";
}

}  // namespace

#define NEXT(name) reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name))

extern "C" {
int cudaGetDeviceCount(int* count) { *count = kCards; return 0; }
int cudaGetDevice(int* device) { *device = 0; return 0; }
int cudaSetDevice(int device) { return device < kCards ? 0 : kInvalidDevice; }
int cudaDeviceGetByPCIBusId(int* device, const char* bus) { *device = strstr(bus, ":02:") != nullptr; return 0; }
int cudaDeviceGetAttribute(int* value, int attribute, int) { *value = attribute == 75 ? 12 : 0; return 0; }
int cudaGetDeviceProperties(char* properties, int) {
  memset(properties, 0, 700);
  *reinterpret_cast<int*>(properties + 360) = 12;  // `major` in CUDA 12 and 13
  return 0;
}
int cudaRuntimeGetVersion(int* version) { *version = 13000; return 0; }
int cudaDriverGetVersion(int* version) { *version = 13000; return 0; }
int cudaMemGetInfo(size_t* free, size_t* total) { *free = *total = 1u << 30; return 0; }
const char* cudaGetErrorString(int code) { return code == kInvalidDevice ? "invalid device ordinal" : "no error"; }
const char* cudaGetErrorName(int code) { return code == kInvalidDevice ? "cudaErrorInvalidDevice" : "cudaSuccess"; }
void* __cudaRegisterFatBinary() { static void* handle; return &handle; }

// Read by tests: how many CUDA graphs were made.
int stand_in_graphs;
int cudaStreamEndCapture(void*, void** graph) { *graph = &stand_in_graphs; return 0; }
int cudaGraphInstantiate(void** graph) { *graph = &stand_in_graphs; ++stand_in_graphs; return 0; }

int getInferLibVersion() { return TENSORRT; }
void* getPluginRegistry() { return object(0); }
void* createInferRuntime_INTERNAL() { return object(0); }
void* createInferBuilder_INTERNAL() { return object(1); }
void* createNvOnnxParser_INTERNAL() { return object(0); }

// What libstdc++ asks the system by.
int openat(int folder, const char* path, int flags, ...) { return NEXT(openat)(folder, redirected(path).c_str(), flags, 0600); }
FILE* fopen(const char* path, const char* mode) { return NEXT(fopen)(redirected(path).c_str(), mode); }
FILE* fopen64(const char* path, const char* mode) { return NEXT(fopen64)(redirected(path).c_str(), mode); }
DIR* opendir(const char* path) { return NEXT(opendir)(redirected(path).c_str()); }
int __xstat(int version, const char* path, struct stat* found) { return NEXT(__xstat)(version, redirected(path).c_str(), found); }
}
