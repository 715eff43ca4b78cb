export default {
  base: "./",
  // Vite would move webpte's modules away from its worker and archives.
  optimizeDeps: { exclude: ["webpte"] },
};
